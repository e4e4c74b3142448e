package extproc

import (
	"slices"
	"strconv"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/penstock-project/penstock/picker/request"
)

// headerModel is the request header with the client's model from the body.
const headerModel = "x-gateway-model-name"

// maxModelHeader bounds headerModel, in bytes, as does the script that routes by this header.
const maxModelHeader = 1024

type change struct {
	model      string // "" does not change headerModel
	length     int    // 0 does not change content-length
	dropModel  bool
	dropLength bool
	set        []Header
	remote     Changes
	remove     []string
	replaced   bool
	body       mem.BufferSlice
}

func (c *change) headers(w *writer) {
	if c.dropModel {
		w.str(2, headerModel)
	}
	if c.dropLength {
		w.str(2, "content-length")
	}
	for _, name := range c.remove {
		w.str(2, name)
	}
	c.remote.write(w)
	for i := range c.set {
		w.header(c.set[i].Name, c.set[i].Value)
	}
	if c.model != "" {
		w.header(headerModel, c.model)
	}
	if c.length > 0 {
		w.header("content-length", strconv.Itoa(c.length))
	}
}

// tooManyModels rejects a body with more members "model" than the picker can replace: a server
// might read a member that was not replaced.
var tooManyModels = Answer{Status: 400, Reason: ReasonInvalidBody,
	Message: "the request's body is invalid: it has too many members \"model\"", MaxRetries: -1}

// notUTF8 rejects a body in which a server might find members that this picker does not find.
var notUTF8 = Answer{Status: 400, Reason: ReasonInvalidBody,
	Message: "the request's body is invalid: write JSON in UTF-8", MaxRetries: -1}

// rewriteBody returns the client's model. The scanner's facts then describe the changed body.
func (x *exchange) rewriteBody() (model string, problem *Answer) {
	if x.scanner.NotUTF8() && (x.policy.Rewrite || x.policy.OwnWorkers || x.policy.Process) {
		return "", &notUTF8
	}
	model, problem = x.replaceModel()
	var renamed []request.Splice
	if x.policy.Process && problem == nil {
		renamed = slices.Clone(x.scanner.Splices())
	}
	switch {
	case problem != nil:
		return model, problem
	case x.policy.OwnWorkers && !x.scanner.RemoveWorkers():
		return model, &tooManyWorkers
	case x.policy.Process && !x.scanner.RemoveRoute():
		return model, &tooManyRoutes
	}
	if x.policy.Usage {
		x.scanner.IncludeUsage(x.request.Body)
	}
	splices := x.scanner.Splices()
	if len(splices) == 0 {
		return model, nil
	}
	if x.policy.OwnWorkers || x.policy.Process {
		x.sent = slices.Clone(x.request.Body)
		x.sent.Ref()
	}
	if len(renamed) > 0 {
		x.renamed = slices.Clone(x.request.Body)
		x.renamed.Ref()
		x.renamed = request.Apply(x.renamed, renamed)
	}
	x.replaceBody(x.request.Body, splices)
	return model, nil
}

// replaceBody applies the splices to body, whose references it takes over.
func (x *exchange) replaceBody(body mem.BufferSlice, splices []request.Splice) {
	x.request.Body = request.Apply(body, splices)
	x.change.replaced, x.change.length = true, x.size+request.Grown(splices)
}

func (x *exchange) edit(a *Answer) {
	if by := &a.Changes; by.replaced && len(x.request.Body) > 0 {
		x.request.Body.Free()
		x.request.Body = mem.BufferSlice{mem.SliceBuffer(by.body)}
		x.change.replaced, x.change.length = true, len(by.body)
		return
	}
	e := request.Edit{TokenData: a.TokenData, TokenIDs: a.TokenIDs}
	if len(e.TokenData)+len(e.TokenIDs) == 0 || x.scanner == nil || x.request.Facts.Size == 0 ||
		len(x.request.Body) == 0 {
		return
	}
	sent := x.request.Body
	if x.sent != nil {
		sent.Free()
		sent, x.sent = x.sent, nil
	}
	x.request.Body = sent
	if splices := x.scanner.Edited(sent, e); len(splices) > 0 {
		x.replaceBody(sent, splices)
	}
}

func (r *Request) takeBody(bytes int) bool {
	x := r.exchange
	return x == nil || x.bodies.take(int64(bytes), &x.held)
}

// Sent returns the body for the processor (BodyPolicy.Process): the client's body with only the
// model replaced. It is valid only during Pick.Answer.
func (r *Request) Sent() mem.BufferSlice {
	switch x := r.exchange; {
	case x != nil && x.renamed != nil:
		return x.renamed
	case x != nil && x.sent != nil:
		return x.sent
	}
	return r.Body
}

// Valid reports whether Sent is one JSON value. It is also false if Bodies has no room for a copy.
func (r *Request) Valid() bool {
	body := r.Sent()
	if len(body) == 1 {
		return request.Check(body[0].ReadOnlyData()) == nil
	}
	if x := r.exchange; x != nil {
		copied := int64(body.Len())
		if !x.bodies.take(copied, &x.held) {
			return false
		}
		defer x.bodies.give(copied, &x.held)
	}
	return request.Check(body.Materialize()) == nil
}

var tooManyRoutes = Answer{Status: 400, Reason: ReasonInvalidBody,
	Message: "the request's body is invalid: it has too many members \"route\" or \"token_ids\"", MaxRetries: -1}

var tooManyWorkers = Answer{Status: 400, Reason: ReasonInvalidBody,
	Message: "the request's body is invalid: its member \"nvext\" names too many workers", MaxRetries: -1}

func (x *exchange) replaceModel() (model string, problem *Answer) {
	served := x.scanner.Model()
	if !x.policy.Rewrite || served == "" {
		return served, nil
	}
	model = x.clientsModel(served)
	target := x.pick.Replacement(model)
	if target == nil && model != served {
		target = request.NewTarget(model)
	}
	if target == nil {
		return model, nil
	}
	if !x.scanner.Replace(target) {
		return model, &tooManyModels
	}
	return model, nil
}

// clientsModel returns the model that the client named. If the request was spilled, its first
// pool's pick may have replaced the model in the body; headerModel then has the client's model. A
// client cannot set headerModel, because the first gateway removes this header.
func (x *exchange) clientsModel(served string) string {
	if name := x.request.Headers.Header(headerModel); x.request.Last && len(name) > 0 {
		return string(name)
	}
	return served
}

func (x *exchange) noteModel() {
	model, given := x.request.Facts.Model, x.request.Headers.Header(headerModel)
	switch {
	case model != "" && model == string(given):
	case validHeader(model):
		x.change.model = model
	case given != nil:
		x.change.dropModel = true
	}
}

func validHeader(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == 0x7f {
			return false
		}
	}
	return text != "" && len(text) <= maxModelHeader && text[0] != ' ' && text[len(text)-1] != ' '
}

// changed returns the changes for the reply to a phase. If this reply carries the body, changed
// moves a new body from the request into the changes.
func (x *exchange) changed(phase protowire.Number) *change {
	c := &x.change
	if !x.request.Reported() && x.request.Facts.Size == 0 && x.request.Headers.Header(headerModel) != nil {
		c.dropModel = true // the gateway does not remove the header
	}
	if c.replaced {
		if phase == replyRequestBody {
			c.body, x.request.Body = x.request.Body, nil
		} else {
			c.replaced = false // a later reply has the new body
		}
		if x.request.Headers.Header("content-length") == nil {
			c.length = 0
		}
		if x.requestMode == ModeBufferedPartial { // the whole body's length is unknown
			c.length, c.dropLength = 0, true
		}
	}
	return c
}

// rewriteChunks prepares the changes to a body that arrives in chunks after the pick (STREAMED).
// Only with TrustHeaders, the pick uses the model in headerModel: a client could name a Critical
// model.
func (x *exchange) rewriteChunks() {
	if x.requestMode != ModeStreamed {
		return
	}
	if !x.policy.Rewrite {
		x.passUnread()
		return
	}
	x.change.dropLength = true
	f := &x.request.Facts
	if name := x.request.Headers.Header(headerModel); x.policy.TrustHeaders && len(name) > 0 {
		f.Model = string(name)
		f.Target = x.pick.Replacement(f.Model)
	}
	last, drawn := f.Model, f.Target
	x.rewrite = request.NewRewriter(func(model string) *request.Target {
		if model != last { // a repeated name gets the same target
			last, drawn = model, x.pick.Replacement(model)
		}
		return drawn
	}, x.policy.Process)
}

func (x *exchange) passUnread() {
	if x.policy.Process {
		x.change.dropLength = true
		x.rewrite = request.NewRewriter(nil, true)
	}
}

func (x *exchange) readNothing(m *Message, streamed bool) (problem *Answer) {
	switch problem = x.overloaded(false); {
	case problem != nil:
	case streamed:
		x.request.Body = m.TakeBody(x.request.Body) // sent back after the pick
		x.passUnread()
	case x.policy.Process: // BUFFERED: m has the whole body
		size, rewriter := m.Body.Len(), request.NewRewriter(nil, true)
		defer rewriter.Release()
		body, ok := rewriter.Write(m.TakeBody(nil), true)
		if x.request.Body = body; !ok {
			return &tooManyMembers
		}
		if n := body.Len(); n < size {
			x.change.replaced, x.change.length = true, n
		}
	}
	return problem
}

var tooManyMembers = Answer{Status: 400, Reason: ReasonInvalidBody,
	Message: "the request's body is invalid: it has too many members \"model\", \"route\" or \"token_ids\", or is " +
		"not in UTF-8", MaxRetries: -1}

func (x *exchange) rewriteChunk(m *Message) error {
	switch x.requestMode {
	case ModeFullDuplexStreamed:
		if x.requestEnd {
			return nil // the end of the body was already handled
		}
		x.requestEnd = m.EndOfStream
		return x.echoRewritten(m.TakeBody(nil), m.EndOfStream)
	case ModeBuffered, ModeBufferedPartial:
		m.EndOfStream = true
	}
	body, ok := x.rewrite.Write(m.TakeBody(nil), m.EndOfStream)
	if !ok {
		body.Free()
		return x.answer(replyRequestBody, &tooManyMembers)
	}
	return x.send(bodyReply(body))
}

func (x *exchange) echoRewritten(chunk mem.BufferSlice, end bool) error {
	body, ok := x.rewrite.Write(chunk, end)
	if !ok {
		body.Free()
		return x.answer(replyRequestBody, &tooManyMembers)
	}
	return x.echo(replyRequestBody, body, end)
}

func bodyReply(body mem.BufferSlice) *reply {
	size := body.Len()
	w := newWriter(48)
	w.varint(uint64(size))
	for _, num := range [...]protowire.Number{1 /* body */, 3 /* body_mutation */, 1 /* response */} {
		w.tag(num, protowire.BytesType)
		w.varint(uint64(w.len() + size))
	}
	w.tag(replyRequestBody, protowire.BytesType)
	return &reply{bufs: append(mem.BufferSlice{mem.SliceBuffer(w.buf[w.at:])}, body...)}
}
