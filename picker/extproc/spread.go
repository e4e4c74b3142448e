package extproc

import "github.com/penstock-project/penstock/picker/request"

// ReasonInvalidBody is the reason of a 400: the pool's strategy needs the body, which is no JSON or nests too deep.
const ReasonInvalidBody = "invalid_body"

// readFacts reads the facts of the body. It returns an answer if the body is invalid and the pool needs it.
func (x *exchange) readFacts() *Answer {
	x.request.Facts = x.scanner.Facts()
	if x.spread == nil {
		return nil
	}
	hash, err := x.spread.Sum()
	if err != nil {
		return &Answer{Status: 400, Reason: ReasonInvalidBody, Message: "the request's body is invalid: " + err.Error(), MaxRetries: -1}
	}
	x.request.Facts.Spread = hash
	return nil
}

// spreadOfNothing is the Facts.Spread of a request without a body.
func (x *exchange) spreadOfNothing() uint64 {
	if x.policy.UserMessages == 0 {
		return 0
	}
	s := request.NewSpread(request.OtherKind, x.policy.UserMessages)
	defer s.Release()
	hash, _ := s.Sum() // of no chat completion: there is no error
	return hash
}
