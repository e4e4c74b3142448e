package extproc

import "github.com/penstock-project/penstock/picker/request"

// ReasonInvalidBody is the reason of a 400: the pool needs the body, which is not JSON or is nested
// too deeply.
const ReasonInvalidBody = "invalid_body"

func (x *exchange) readFacts() *Answer {
	model, problem := x.rewriteBody()
	if problem != nil {
		return problem
	}
	x.request.Facts = x.scanner.Facts()
	x.request.Facts.Model = model
	x.noteModel()
	if x.policy.Valid && x.request.Facts.Kind.JSON() {
		if err := x.check(); err != nil {
			return invalidBody(err)
		}
	}
	if x.spread == nil {
		return nil
	}
	hash, err := x.spread.Sum()
	if err != nil {
		return invalidBody(err)
	}
	x.request.Facts.Spread = hash
	return nil
}

func invalidBody(err error) *Answer {
	return &Answer{Status: 400, Reason: ReasonInvalidBody, Message: "the request's body is invalid: " + err.Error(),
		MaxRetries: -1}
}

// check returns why the body is not JSON, or nil. It checks nothing if Bodies has no room for a
// copy.
func (x *exchange) check() error {
	if len(x.request.Body) == 1 {
		return request.Check(x.request.Body[0].ReadOnlyData())
	}
	copied := int64(x.size)
	if !x.bodies.take(copied, &x.held) {
		x.bodies.unread.Add(1)
		return nil
	}
	defer x.bodies.give(copied, &x.held)
	return request.Check(x.request.Body.Materialize())
}

func (x *exchange) spreadOfNothing() uint64 {
	if x.policy.UserMessages == 0 {
		return 0
	}
	s := request.NewSpread(request.OtherKind, x.policy.UserMessages)
	defer s.Release()
	hash, _ := s.Sum() // no error, because this is no chat completion
	return hash
}
