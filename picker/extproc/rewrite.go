package extproc

import (
	"slices"
	"strconv"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/penstock-project/penstock/picker/request"
)

// headerModel has the model that the client asked for. It comes from the body.
const headerModel = "x-gateway-model-name"

// maxModelHeader bounds the value of headerModel, in bytes, as the script that chooses routes by it
// does.
const maxModelHeader = 1024

// change is what a pick changes in its request, beside naming endpoints.
type change struct {
	model      string // of headerModel; "" leaves it alone
	length     int    // of the new body, for content-length; 0 leaves it alone
	dropModel  bool   // removes headerModel
	dropLength bool   // removes content-length
	set        []Header
	remote     Changes  // of a remote picker
	remove     []string // headers
	replaced   bool     // the body is replaced by body, in this message
	body       mem.BufferSlice
}

// headers writes into a HeaderMutation.
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

// tooManyModels answers a body of which a server might read another model than we replace.
var tooManyModels = Answer{Status: 400, Reason: ReasonInvalidBody,
	Message: "the request's body is invalid: it has too many members \"model\"", MaxRetries: -1}

// notUTF8 answers a body in which a server would find a model, or what is for the picker alone, and
// we do not.
var notUTF8 = Answer{Status: 400, Reason: ReasonInvalidBody,
	Message: "the request's body is invalid: write JSON in UTF-8", MaxRetries: -1}

// rewriteBody replaces the model in a body that is read, and removes the workers that its client
// names, and what is for the picker alone. It returns the model that the client asked for. The
// scanner's facts are then those of the new body.
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

// replaceBody sets the body to one with splices. It consumes body's references.
func (x *exchange) replaceBody(body mem.BufferSlice, splices []request.Splice) {
	x.request.Body = request.Apply(body, splices)
	x.change.replaced, x.change.length = true, x.size+request.Grown(splices)
}

// edit adds to a body that is read what the pick's answer has for it.
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

// takeBody takes memory for a body that a remote picker has changed. It returns false if too many
// bodies are held.
func (r *Request) takeBody(bytes int) bool {
	x := r.exchange
	return x == nil || x.bodies.take(int64(bytes), &x.held)
}

// Sent is the body as the client sent it, but with the model that the server gets, of a pool with
// BodyPolicy.Process whose request's body is read. It is valid during Pick.
func (r *Request) Sent() mem.BufferSlice {
	switch x := r.exchange; {
	case x != nil && x.renamed != nil:
		return x.renamed
	case x != nil && x.sent != nil:
		return x.sent
	}
	return r.Body
}

// Valid reports whether Sent is one JSON value. It reports false if too many bodies are held to
// copy this one.
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

// tooManyRoutes answers a body that names what is for the picker too often.
var tooManyRoutes = Answer{Status: 400, Reason: ReasonInvalidBody,
	Message: "the request's body is invalid: it has too many members \"route\" or \"token_ids\"", MaxRetries: -1}

// tooManyWorkers is the same of workers.
var tooManyWorkers = Answer{Status: 400, Reason: ReasonInvalidBody,
	Message: "the request's body is invalid: its member \"nvext\" names too many workers", MaxRetries: -1}

// replaceModel draws the target of a request whose body is read. It returns the model that the
// client asked for.
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

// clientsModel is the model that the client asked for. Behind a hop, the body may have another one:
// that of an earlier pick for the same pool, which was lost. Its picker has set the header, and on
// the edge the one of a client is removed.
func (x *exchange) clientsModel(served string) string {
	if name := x.request.Headers.Header(headerModel); x.request.Last && len(name) > 0 {
		return string(name)
	}
	return served
}

// noteModel sets headerModel to what the body has, and removes the one of a client.
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

// validHeader reports whether Envoy takes a text as the value of a header.
func validHeader(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == 0x7f {
			return false
		}
	}
	return text != "" && len(text) <= maxModelHeader && text[0] != ' ' && text[len(text)-1] != ' '
}

// changed returns the changes for the answer to a phase, and takes the new body out of the request
// if it belongs there.
func (x *exchange) changed(phase protowire.Number) *change {
	c := &x.change
	if !x.request.Reported() && x.request.Facts.Size == 0 && x.request.Headers.Header(headerModel) != nil {
		c.dropModel = true // of a gateway that does not remove it
	}
	if c.replaced {
		if phase == replyRequestBody {
			c.body, x.request.Body = x.request.Body, nil
		} else {
			c.replaced = false // the body is sent back behind the headers
		}
		if x.request.Headers.Header("content-length") == nil {
			c.length = 0
		}
		if x.requestMode == ModeBufferedPartial { // the rest of the body is not known
			c.length, c.dropLength = 0, true
		}
	}
	return c
}

// rewriteChunks begins to replace models, and to remove what is for the picker, in a body that is
// passed on chunk by chunk, after the pick: in STREAMED. The pick goes by the model in the header
// where headers are trusted: a client could name one that is Critical.
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
		if model != last { // a name that the body repeats is replaced by one target
			last, drawn = model, x.pick.Replacement(model)
		}
		return drawn
	}, x.policy.Process)
}

// passUnread begins to remove what is for the picker from a body that no pick waits for, and that
// is passed on chunk by chunk.
func (x *exchange) passUnread() {
	if x.policy.Process {
		x.change.dropLength = true
		x.rewrite = request.NewRewriter(nil, true)
	}
}

// readNothing has a request go on without its body, of which too much is held. It returns an answer
// if that is no way to go on.
func (x *exchange) readNothing(m *Message, streamed bool) (problem *Answer) {
	switch problem = x.overloaded(false); {
	case problem != nil:
	case streamed:
		x.request.Body = m.TakeBody(x.request.Body) // to be sent back with the pick
		x.passUnread()
	case x.policy.Process: // m has all of the body: nothing is held but this message
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

// tooManyMembers answers a body that is passed on chunk by chunk, and has too many of the members
// that are replaced or removed.
var tooManyMembers = Answer{Status: 400, Reason: ReasonInvalidBody,
	Message: "the request's body is invalid: it has too many members \"model\", \"route\" or \"token_ids\", or is " +
		"not in UTF-8", MaxRetries: -1}

// rewriteChunk answers a chunk of a body that is passed on chunk by chunk. In BUFFERED it is all of
// the body.
func (x *exchange) rewriteChunk(m *Message) error {
	switch x.requestMode {
	case ModeFullDuplexStreamed:
		if x.requestEnd {
			return nil // a second end of the body; the first one was answered
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

// echoRewritten is echo of a chunk that is rewritten.
func (x *exchange) echoRewritten(chunk mem.BufferSlice, end bool) error {
	body, ok := x.rewrite.Write(chunk, end)
	if !ok {
		body.Free()
		return x.answer(replyRequestBody, &tooManyMembers)
	}
	return x.echo(replyRequestBody, body, end)
}

// bodyReply replaces a chunk of a request's body. body's references move to the reply.
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
