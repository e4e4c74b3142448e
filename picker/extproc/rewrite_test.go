package extproc

import (
	"strconv"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// rewriting is the policy of a pool that replaces the model "public" by "v1".
var rewriting = BodyPolicy{Wait: true, Rewrite: true}

const (
	asked     = `{"model":"public","seed":9007199254740993,"prompt":"<b>"}`
	rewritten = `{"model":"v1","seed":9007199254740993,"prompt":"<b>"}`
)

func headersWith(r *extprocv3.ProcessingRequest, pairs ...string) *extprocv3.ProcessingRequest {
	m := r.GetRequestHeaders().Headers
	for i := 0; i < len(pairs); i += 2 {
		m.Headers = append(m.Headers, &corev3.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])})
	}
	return r
}

func set(c *extprocv3.CommonResponse, name string) string {
	for _, h := range c.GetHeaderMutation().GetSetHeaders() {
		if h.Header.Key == name {
			return string(h.Header.RawValue)
		}
	}
	return ""
}

func removes(c *extprocv3.CommonResponse) string {
	return strings.Join(c.GetHeaderMutation().GetRemoveHeaders(), " ")
}

func TestRewrite_BufferedBodyIsReplacedWithItsLength(t *testing.T) {
	p := &fakePicker{policy: rewriting}
	k := open(t, start(t, p))
	k.send(headersWith(headersOf(modeBuffered, false), "content-length", "60", headerModel, "forged"))
	k.receive()
	k.send(bodyOf(asked, true))
	r := k.receive()
	c := r.GetRequestBody().GetResponse()
	wantPick(t, r, c)
	if got := string(c.GetBodyMutation().GetBody()); got != rewritten || set(c, "content-length") != "53" ||
		set(c, headerModel) != "public" {
		t.Errorf("got %s\nof %v, want %s with its length, and %s public",
			got, c.GetHeaderMutation(), rewritten, headerModel)
	}
	if q := p.asked[0]; q.Facts.Model != "public" || q.Facts.Target.Name != "v1" {
		t.Errorf("the pick has model %q and target %q, want public and v1", q.Facts.Model, q.Facts.Target.Name)
	}
}

func TestRewrite_DuplexBodyIsReplacedBehindItsHeaders(t *testing.T) {
	p := &fakePicker{policy: rewriting}
	k := open(t, start(t, p))
	k.send(headersWith(headersOf(modeDuplex, false), "content-length", "60"))
	for i, text := range []string{asked[:13], asked[13:20], asked[20:]} {
		k.send(bodyOf(text, i == 2))
	}
	r := k.receive()
	c := r.GetRequestHeaders().GetResponse()
	wantPick(t, r, c)
	if set(c, "content-length") != "53" || set(c, headerModel) != "public" || c.GetBodyMutation() != nil {
		t.Errorf("headers: got %v, want content-length 53, the model public, and no body", c)
	}
	s := k.receive().GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
	if string(s.GetBody()) != rewritten || !s.GetEndOfStream() {
		t.Errorf("got %v, want %s as the whole body", s, rewritten)
	}
}

// In STREAMED, the pick precedes the body, so the model is replaced in the passing chunks.
func TestRewrite_StreamedBodyIsReplacedChunkByChunk(t *testing.T) {
	p := &fakePicker{policy: rewriting}
	k := open(t, start(t, p))
	k.send(headersWith(headersOf(modeStreamed, false), "content-length", "60"))
	r := k.receive()
	wantPick(t, r, r.GetRequestHeaders().GetResponse())
	if removed := removes(r.GetRequestHeaders().GetResponse()); removed != "content-length" {
		t.Errorf(`removes %q, want "content-length"`, removed)
	}
	var got strings.Builder
	for i, text := range []string{asked[:13], asked[13:20], asked[20:]} {
		k.send(bodyOf(text, i == 2))
		m := k.receive().GetRequestBody().GetResponse().GetBodyMutation()
		if m == nil {
			t.Fatal("a chunk passes as it is")
		}
		got.Write(m.GetBody())
	}
	if got.String() != rewritten {
		t.Errorf("%s, want %s", got.String(), rewritten)
	}
}

func TestRewrite_UnknownModelPassesUnchanged(t *testing.T) {
	p := &fakePicker{policy: rewriting}
	k := open(t, start(t, p))
	k.send(headersOf(modeBuffered, false))
	k.receive()
	k.send(bodyOf(`{"model":"other"}`, true))
	if c := k.receive().GetRequestBody().GetResponse(); c.GetBodyMutation() != nil || set(c, headerModel) != "other" ||
		set(c, "content-length") != "" {
		t.Errorf("got %v, want model other, and body and length unchanged", c)
	}
}

func TestRewrite_TooManyModelsAreInvalid(t *testing.T) {
	p := &fakePicker{policy: rewriting}
	k := open(t, start(t, p))
	k.send(headersOf(modeBuffered, false))
	k.receive()
	k.send(bodyOf("{"+strings.Repeat(`"model":"public",`, 20)+`"x":1}`, true))
	if r := k.receive().GetImmediateResponse(); r.GetStatus().GetCode() != 400 ||
		!strings.Contains(string(r.GetBody()), `too many members`) {
		t.Errorf(`got %v, want 400 with "too many members"`, r)
	}
	if len(p.asked) > 0 {
		t.Error("it was picked for")
	}
}

// A request that needs a replaced model gets a 503 if Bodies has no room for its body. The server
// lacks the client's model.
func TestRewrite_BodyThatCannotBeHeldIsAnswered503(t *testing.T) {
	p := &fakePicker{policy: rewriting, held: NewBodies(1)}
	k := open(t, start(t, p))
	k.send(headersOf(modeBuffered, false))
	k.receive()
	k.send(bodyOf(asked, true))
	if r := k.receive().GetImmediateResponse(); r.GetStatus().GetCode() != 503 {
		t.Errorf("got %v, want 503", r)
	}
}

// A pick in front of a hop may have replaced the model in the body. The pick behind the hop then
// takes the client's model from headerModel.
func TestRewrite_BehindAHopTheClientsModelCounts(t *testing.T) {
	for header, want := range map[string]string{"public": rewritten,
		"client's": strings.Replace(asked, "public", "client's", 1)} {
		p := &fakePicker{policy: rewriting}
		k := open(t, start(t, p), MetadataKeyPool, "ns/pool", MetadataKeyLast, "true")
		k.send(headersWith(headersOf(modeBuffered, false), headerModel, header))
		k.receive()
		k.send(bodyOf(strings.Replace(asked, "public", "v0", 1), true))
		if got := string(k.receive().GetRequestBody().GetResponse().GetBodyMutation().GetBody()); got != want ||
			p.asked[0].Facts.Model != header {
			t.Errorf("%s: got %s, model %q; want %s, the header's model", header, got, p.asked[0].Facts.Model, want)
		}
	}
}

// The picker removes a client's own headerModel, which could name another model than the body.
func TestModelHeader_OfAClientIsStripped(t *testing.T) {
	for text, want := range map[string]string{`{"model":"a\nb"}`: headerModel, `{"model":5}`: headerModel,
		`[]`: headerModel, `{"model":"m"}`: ""} {
		p := &fakePicker{policy: BodyPolicy{Wait: true}}
		k := open(t, start(t, p))
		k.send(headersWith(headersOf(modeBuffered, false), headerModel, "forged"))
		k.receive()
		k.send(bodyOf(text, true))
		if c := k.receive().GetRequestBody().GetResponse(); removes(c) != want ||
			(set(c, headerModel) != "m") != (want != "") {
			t.Errorf("%s: got %v, want %q removed", text, c, want)
		}
	}
}

const (
	workers      = `{"model":"public","nvext":{"dp_rank":3,"annotations":[]}}`
	ownedWorkers = `{"model":"v1","nvext":{"token_data":[1,2],"dp_rank":null,"annotations":[]}}`
)

// When the picker replaces the model, it also removes the client's workers, and adds the pick's
// token IDs.
func TestNvext_BodyHasTheWorkersOfThePick(t *testing.T) {
	policy := rewriting
	policy.OwnWorkers = true
	p := &fakePicker{policy: policy, answer: func(*Request) Answer {
		return Answer{Endpoints: List{"10.0.0.1:80"}, TokenData: []byte("[1,2]"),
			Headers: []Header{{"x-dynamo-worker-instance-id", "7"}}}
	}}
	length := strconv.Itoa(len(ownedWorkers))
	k := open(t, start(t, p))
	k.send(headersWith(headersOf(modeBuffered, false), "content-length", "60", "x-dynamo-worker-instance-id", "666"))
	k.receive()
	k.send(bodyOf(workers, true))
	c := k.receive().GetRequestBody().GetResponse()
	if got := string(c.GetBodyMutation().GetBody()); got != ownedWorkers || set(c, "content-length") != length ||
		set(c, "x-dynamo-worker-instance-id") != "7" {
		t.Errorf("buffered: got %s\nof %v, want %s with its length, and worker 7",
			got, c.GetHeaderMutation(), ownedWorkers)
	}
	k = open(t, start(t, p))
	k.send(headersWith(headersOf(modeDuplex, false), "content-length", "60"))
	k.send(bodyOf(workers[:30], false))
	k.send(bodyOf(workers[30:], true))
	c = k.receive().GetRequestHeaders().GetResponse()
	s := k.receive().GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
	if got := string(s.GetBody()); got != ownedWorkers || set(c, "content-length") != length {
		t.Errorf("duplex: got %s\nof %v, want %s with its length", got, c, ownedWorkers)
	}
	p.held = NewBodies(1)
	k = open(t, start(t, p))
	k.send(headersWith(headersOf(modeBuffered, false), "content-length", "60"))
	if r := k.receive(); r.GetImmediateResponse().GetStatus().GetCode() != 503 {
		t.Errorf("a body that cannot be held: got %v, want 503", r)
	}
}

const (
	routed      = `{"route":true,"model":"public","token_ids":[7],"seed":9007199254740993}`
	routedGone  = `{"model":"v1","token_ids":[7],"seed":9007199254740993}`
	routedToken = `{"token_ids":[1,2],"model":"v1","seed":9007199254740993}`
)

// The pick gets the client's body with the replaced model. The server also gets the pick's token
// IDs.
func TestTokenIDs_BodyHasThoseOfThePick(t *testing.T) {
	policy := rewriting
	policy.Process = true
	for _, tt := range []struct {
		ids, key, want string
	}{{"", "", routedGone}, {"[1,2]", "", routedToken}, {"", "k1", routedGone}} {
		p := &fakePicker{policy: policy, answer: func(r *Request) Answer {
			asked := strings.Replace(routed, "public", "v1", 1)
			if got := string(r.Sent().Materialize()); got != asked || !r.Facts.Route || !r.Facts.GivesRoute ||
				!r.Valid() {
				t.Errorf("the picker gets %s, route %v; want %s, with a route", got, r.Facts.Route, asked)
			}
			a := Answer{Endpoints: List{"10.0.0.1:80"}, TokenIDs: []byte(tt.ids)}
			if tt.key != "" {
				a.Headers = []Header{{"x-req-tokens-key", tt.key}}
			}
			return a
		}}
		k := open(t, start(t, p))
		k.send(headersWith(headersOf(modeBuffered, false), "content-length", "70", "x-req-tokens-key", "of-another"))
		k.receive()
		k.send(bodyOf(routed, true))
		c := k.receive().GetRequestBody().GetResponse()
		if got := string(c.GetBodyMutation().GetBody()); got != tt.want ||
			set(c, "content-length") != strconv.Itoa(len(tt.want)) || set(c, "x-req-tokens-key") != tt.key {
			t.Errorf("buffered: got %s\nof %v, want %s with its length, and key %q",
				got, c.GetHeaderMutation(), tt.want, tt.key)
		}
		k = open(t, start(t, p))
		k.send(headersWith(headersOf(modeDuplex, false), "content-length", "70"))
		for i := range len(routed) {
			k.send(bodyOf(routed[i:i+1], i == len(routed)-1))
		}
		if c := k.receive().GetRequestHeaders().GetResponse(); set(c, "content-length") != strconv.Itoa(len(tt.want)) ||
			set(c, "x-req-tokens-key") != tt.key {
			t.Errorf("duplex: got headers %v, want length %d and key %q", c, len(tt.want), tt.key)
		}
		if s := k.receive().GetRequestBody().GetResponse().GetBodyMutation().
			GetStreamedResponse(); string(s.GetBody()) != tt.want || !s.GetEndOfStream() {
			t.Errorf("duplex: got %s, want %s as the whole body", s.GetBody(), tt.want)
		}
	}
}

// In STREAMED the pick precedes the body: no token IDs are added, and "route" is removed.
func TestTokenIDs_StreamedBodyHasNoRoute(t *testing.T) {
	for name, rewrite := range map[string]bool{routedGone: true,
		strings.Replace(routedGone, "v1", "public", 1): false} {
		p := &fakePicker{policy: BodyPolicy{Wait: true, Process: true, Rewrite: rewrite}}
		k := open(t, start(t, p))
		k.send(headersWith(headersOf(modeStreamed, false), "content-length", "70", "x-req-tokens-key", "of-another"))
		r := k.receive()
		wantPick(t, r, r.GetRequestHeaders().GetResponse())
		if removed := removes(r.GetRequestHeaders().GetResponse()); removed != "x-req-tokens-key content-length" {
			t.Errorf(`removes %q, want "x-req-tokens-key content-length"`, removed)
		}
		var got strings.Builder
		for i := 0; i < len(routed); i += 7 {
			k.send(bodyOf(routed[i:min(i+7, len(routed))], i+7 >= len(routed)))
			got.Write(k.receive().GetRequestBody().GetResponse().GetBodyMutation().GetBody())
		}
		if got.String() != name {
			t.Errorf("%s, want %s", got.String(), name)
		}
	}
}

// If Bodies has no room, the picker picks without the body, and removes "route" from the passing
// chunks.
func TestTokenIDs_UnreadBodyHasNoRoute(t *testing.T) {
	want := strings.Replace(routedGone, "v1", "public", 1)
	held := NewBodies(1)
	p := &fakePicker{policy: BodyPolicy{Wait: true, Process: true}, held: held, answer: func(r *Request) Answer {
		if r.Facts.Size != 0 {
			t.Error("the body is read")
		}
		return Answer{Endpoints: List{"10.0.0.1:80"}, TokenIDs: []byte("[1]")}
	}}
	c := start(t, p)
	for _, size := range []int{1, 7, 30, len(routed)} {
		k := open(t, c)
		k.send(headersWith(headersOf(modeDuplex, false), "content-length", "70"))
		k.send(bodyOf(routed[:size], size == len(routed)))
		r := k.receive()
		wantPick(t, r, r.GetRequestHeaders().GetResponse())
		if removed := removes(r.GetRequestHeaders().GetResponse()); !strings.Contains(removed, "content-length") {
			t.Errorf(`removes %q, want a text with "content-length"`, removed)
		}
		for i := size; i < len(routed); i += size {
			k.send(bodyOf(routed[i:min(i+size, len(routed))], i+size >= len(routed)))
		}
		if got := k.readBody(true); got != want {
			t.Errorf("in pieces of %d: %s, want %s", size, got, want)
		}
	}
	k := open(t, c)
	k.send(headersOf(modeDuplex, false))
	k.send(bodyOf(`{"a":1,"route":`, false)) // the beginning of a body that ends here
	k.receive()
	k.send(trailers)
	if got := k.readBody(false); got != `{"a":1,"route":` {
		t.Errorf(`with trailers: %s, want "{\"a\":1,\"route\":"`, got)
	}
	// A gateway that names no pool sends the body regardless of the answer to the headers.
	for _, length := range []string{"", "70"} {
		k := open(t, c)
		headers := headersWith(headersOf(modeBuffered, false), "x-other", "a")
		if length != "" {
			headers = headersWith(headers, "content-length", length)
		}
		k.send(headers)
		first := k.receive()
		k.send(bodyOf(routed, true))
		c := k.receive().GetRequestBody().GetResponse()
		if got := string(c.GetBodyMutation().GetBody()); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if length != "" && removes(first.GetRequestHeaders().GetResponse()) != "content-length" {
			t.Errorf("answered %v, want content-length removed", first)
		}
	}
	// An Envoy that Penstock configures sends no body after the pick.
	k = open(t, start(t, p), MetadataKeyPool, "ns/pool")
	k.send(headersWith(headersOf(modeBuffered, false), "content-length", "70"))
	if i := k.receive().GetImmediateResponse(); i.GetStatus().GetCode() != 503 ||
		!strings.Contains(string(i.GetBody()), `"code":"picker_overloaded"`) {
		t.Errorf("got %v, want 503 with picker_overloaded", i)
	}
	poll.Until(t, "nothing is held", func() bool { return held.Held() == 0 })
	k = open(t, start(t, p))
	k.send(headersOf(modeDuplex, false))
	k.send(bodyOf(`{`+strings.Repeat(`"route":1,`, 17)+`"a":1}`, true))
	k.receive()
	if r := k.receive(); r.GetImmediateResponse().GetStatus().GetCode() != 400 ||
		!strings.Contains(r.String(), "too many members") {
		t.Errorf(`17 members: got %v, want 400 with "too many members"`, r)
	}
}

func TestTokenIDs_TooManyMembersAreInvalid(t *testing.T) {
	p := &fakePicker{policy: BodyPolicy{Wait: true, Process: true}}
	k := open(t, start(t, p))
	k.send(headersOf(modeBuffered, false))
	k.receive()
	k.send(bodyOf(`{`+strings.Repeat(`"route":1,`, 17)+`"a":1}`, true))
	if r := k.receive(); r.GetImmediateResponse().GetStatus().GetCode() != 400 {
		t.Errorf("17 members: got %v, want 400", r)
	}
}
