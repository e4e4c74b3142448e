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

// maxModelHeader bounds the value of headerModel, in bytes, as the script that chooses routes by it does.
const maxModelHeader = 1024

// change is what a pick changes in its request, beside naming endpoints.
type change struct {
	model      string // of headerModel; "" leaves it alone
	length     int    // of the new body, for content-length; 0 leaves it alone
	dropModel  bool   // removes headerModel
	dropLength bool   // removes content-length
	set        []Header
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
var tooManyModels = Answer{Status: 400, Reason: ReasonInvalidBody, Message: "the request's body is invalid: it has too many members \"model\"", MaxRetries: -1}

// rewriteBody replaces the model in a body that is read, and removes the workers that its client names, and what is for the picker alone. It
// returns the model that the client asked for. The scanner's facts are then those of the new body.
func (x *exchange) rewriteBody() (model string, problem *Answer) {
	model, problem = x.replaceModel()
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
	e := request.Edit{TokenData: a.TokenData, TokenIDs: a.TokenIDs}
	if len(e.TokenData)+len(e.TokenIDs) == 0 || x.scanner == nil || x.request.Facts.Size == 0 || len(x.request.Body) == 0 {
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

// Sent is the body as the client sent it, of a pool with BodyPolicy.Process whose request's body is read. It is valid during Pick.
func (r *Request) Sent() mem.BufferSlice {
	if x := r.exchange; x != nil && x.sent != nil {
		return x.sent
	}
	return r.Body
}

// Valid reports whether Sent is one JSON value. It reports false if too many bodies are held to copy this one.
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
var tooManyRoutes = Answer{Status: 400, Reason: ReasonInvalidBody, Message: "the request's body is invalid: it has too many members \"route\" or \"token_ids\"", MaxRetries: -1}

// tooManyWorkers is the same of workers.
var tooManyWorkers = Answer{Status: 400, Reason: ReasonInvalidBody, Message: "the request's body is invalid: its member \"nvext\" names too many workers", MaxRetries: -1}

// replaceModel draws the target of a request whose body is read. It returns the model that the client asked for.
func (x *exchange) replaceModel() (model string, problem *Answer) {
	served := x.scanner.Model()
	if x.policy.Target == nil || served == "" {
		return served, nil
	}
	model = x.clientsModel(served)
	target := x.policy.Target(model)
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

// clientsModel is the model that the client asked for. Behind a hop, the body may have another one: that of an earlier pick for the
// same pool, which was lost. Its picker has set the header, and on the edge the one of a client is removed.
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

// changed returns the changes for the answer to a phase, and takes the new body out of the request if it belongs there.
func (x *exchange) changed(phase protowire.Number) *change {
	c := &x.change
	if x.request.Pool == "" && x.request.Facts.Size == 0 && x.request.Headers.Header(headerModel) != nil {
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

// rewriteChunks begins to replace models in a body that is passed on chunk by chunk, after the pick: in STREAMED. The pick goes by the
// model in the header, if any.
func (x *exchange) rewriteChunks() {
	if x.requestMode != ModeStreamed || x.policy.Target == nil {
		return
	}
	f := &x.request.Facts
	if f.Model = string(x.request.Headers.Header(headerModel)); f.Model != "" {
		f.Target = x.policy.Target(f.Model)
	}
	x.change.dropLength = true
	x.rewrite = request.NewRewriter(func(model string) *request.Target {
		if model == f.Model {
			return f.Target
		}
		return x.policy.Target(model)
	})
}

// rewriteChunk answers a chunk in STREAMED.
func (x *exchange) rewriteChunk(m *Message) error {
	body, ok := x.rewrite.Write(m.TakeBody(nil), m.EndOfStream)
	if !ok {
		body.Free()
		return x.answer(replyRequestBody, &tooManyModels)
	}
	return x.send(bodyReply(body))
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
