package extproc

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// stalled starts uploads of size bytes each that never end, so their picks wait.
func stalled(t *testing.T, p *fakePicker, uploads, size int) (conn func(pairs ...string) client) {
	c := start(t, p)
	for range uploads {
		k := open(t, c)
		k.send(headersOf(modeDuplex, false))
		for left := size; left > 0; left -= 64 << 10 {
			k.send(bodyOf(strings.Repeat("x", min(left, 64<<10)), false))
		}
	}
	poll.Until(t, "the uploads fill the bound", func() bool {
		return p.held.Held() > p.held.limit-(64<<10)-scannerBytes-4*chunkBytes
	})
	return func(pairs ...string) client { return open(t, c, pairs...) }
}

// If Bodies has no room for a body in FULL_DUPLEX_STREAMED, the picker sends it back at once, and
// picks without it.
func TestBodies_StalledUploadsTakeBoundedMemory(t *testing.T) {
	const limit = 1 << 20
	p := &fakePicker{policy: BodyPolicy{Wait: true, Limit: 32 << 20}, held: NewBodies(limit),
		answer: func(*Request) Answer { return Answer{Endpoints: List{"10.0.0.1:8000"}} }}
	next := stalled(t, p, 3, 280<<10)
	if held := p.held.Held(); held > limit {
		t.Errorf("%d bytes are held, want at most %d", held, limit)
	}
	text := `{"model":"m","pad":"` + strings.Repeat("z", 300<<10) + `"}`
	k := next()
	k.send(headersOf(modeDuplex, false))
	k.send(bodyOf(text[:100_000], false))
	r := k.receive()
	wantPick(t, r, r.GetRequestHeaders().GetResponse())
	k.send(bodyOf(text[100_000:], true))
	if got := k.readBody(true); got != text {
		t.Errorf("%d bytes of %d were sent back, want all unchanged", len(got), len(text))
	}
	k = next()
	k.send(headersOf(modeBuffered, false))
	k.receive()
	k.send(bodyOf(text, true))
	r = k.receive()
	wantPick(t, r, r.GetRequestBody().GetResponse())
	if p.held.Unread() < 2 || p.held.Rejected() != 0 {
		t.Errorf("%d picks without a body, %d rejected; want at least 2, and none", p.held.Unread(), p.held.Rejected())
	}
}

func TestBodies_OtherClustersTakeNoRoomFromOurGateways(t *testing.T) {
	p := &fakePicker{policy: BodyPolicy{Wait: true, Limit: 32 << 20}, held: NewBodies(1 << 20),
		answer: func(*Request) Answer { return Answer{Endpoints: List{"10.0.0.1:8000"}} }}
	theirs := NewBodies(1 << 20)
	k := open(t, startWith(t, p, Config{Pool: "ns/pool", ImportBodies: theirs}))
	k.send(headersOf(modeDuplex, false))
	k.send(bodyOf(strings.Repeat("z", 100<<10), false))
	poll.Until(t, "it is held", func() bool { return theirs.Held() > 100<<10 })
	if held := p.held.Held(); held != 0 {
		t.Errorf("%d bytes of the room of this cluster's Gateways are taken, want 0", held)
	}
}

// If Bodies has no room for a required body, the client gets an error in OpenAI's format.
func TestBodies_BodyThatAPickerNeedsIsRejected(t *testing.T) {
	p := &fakePicker{policy: BodyPolicy{Wait: true, Whole: true, Limit: 32 << 20}, held: NewBodies(1 << 20)}
	k := stalled(t, p, 3, 280<<10)()
	k.send(headersOf(modeBuffered, false))
	k.receive()
	k.send(bodyOf(strings.Repeat("z", 300<<10), true))
	i := k.receive().GetImmediateResponse()
	if i.GetStatus().GetCode() != 503 || !strings.Contains(string(i.GetBody()), `"code":"picker_overloaded"`) {
		t.Errorf("got %v, want 503 with picker_overloaded", i)
	}
	if p.held.Rejected() != 1 || p.held.Unread() != 0 {
		t.Errorf("%d picks without a body, %d rejected; want none, and 1", p.held.Unread(), p.held.Rejected())
	}
}

// If Bodies has no room for a body's declared length, the picker answers the headers at once. So
// neither Envoy nor gRPC buffers the body.
func TestBodies_BodyThatWouldNotFitIsNotSent(t *testing.T) {
	for _, whole := range []bool{false, true} {
		p := &fakePicker{policy: BodyPolicy{Wait: true, Whole: whole, Limit: 32 << 20}, held: NewBodies(1 << 20),
			answer: func(*Request) Answer { return Answer{Endpoints: List{"10.0.0.1:8000"}} }}
		conn := start(t, p)
		for length, fits := range map[string]bool{
			"100000": true, "1000000": true, "1048576": false, "33000000": false, "99999999999999": true, "-1": true,
			"x": true,
		} {
			k := open(t, conn)
			headers := headersOf(modeBuffered, false)
			list := headers.GetRequestHeaders().GetHeaders()
			list.Headers = append(list.Headers, &corev3.HeaderValue{Key: "content-length", RawValue: []byte(length)})
			k.send(headers)
			r := k.receive()
			mutation := r.GetRequestHeaders().GetResponse().GetHeaderMutation()
			switch {
			case fits:
				if r.GetRequestHeaders() == nil || mutation != nil {
					t.Errorf("a body of %s bytes: got %v, want headers unchanged", length, r)
				}
			case whole:
				if i := r.GetImmediateResponse(); i.GetStatus().GetCode() != 503 ||
					!strings.Contains(string(i.GetBody()), `"code":"picker_overloaded"`) {
					t.Errorf("a body of %s bytes that is needed: got %v, want 503 with picker_overloaded", length, r)
				}
			default:
				wantPick(t, r, r.GetRequestHeaders().GetResponse())
			}
			k.cancel()
		}
		if n := p.held.Unread() + p.held.Rejected(); n != 2 {
			t.Errorf("%d bodies are counted as not read, want 2", n)
		}
	}
}

func TestBodies_TinyChunksCountForTheirBuffers(t *testing.T) {
	p := &fakePicker{policy: BodyPolicy{Wait: true, Limit: 32 << 20}, held: NewBodies(64 << 10),
		answer: func(*Request) Answer { return Answer{Endpoints: List{"10.0.0.1:8000"}} }}
	k := open(t, start(t, p))
	k.send(headersOf(modeDuplex, false))
	for range 100 {
		k.send(bodyOf("x", false))
	}
	r := k.receive()
	wantPick(t, r, r.GetRequestHeaders().GetResponse())
}

func TestBodies_NothingIsHeldAfterward(t *testing.T) {
	for name, end := range map[string]func(k client){
		"with its body":        func(k client) { k.send(bodyOf("{}", true)); k.receive(); k.readBody(true) },
		"with trailers":        func(k client) { k.send(trailers); k.receive(); k.readBody(false) },
		"with the stream":      func(k client) { k.cancel() },
		"with a large body":    func(k client) { k.send(bodyOf(strings.Repeat("x", 1<<20), true)); k.receive() },
		"with another message": func(k client) { k.send(headersOf(modeDuplex, false)); _, _ = k.Recv() },
	} {
		t.Run(name, func(t *testing.T) {
			p := &fakePicker{policy: BodyPolicy{Wait: true, Limit: 1 << 20}, held: NewBodies(0),
				answer: func(*Request) Answer { return Answer{Endpoints: List{"10.0.0.1:8000"}} }}
			k := open(t, start(t, p))
			k.send(headersOf(modeDuplex, false))
			k.send(bodyOf(strings.Repeat("x", 100), false))
			poll.Until(t, "the body is held", func() bool { return p.held.Held() > 0 })
			end(k)
			poll.Until(t, "nothing is held", func() bool { return p.held.Held() == 0 })
		})
	}
}

func TestExtProc_FactsAreOfTheRequestsPath(t *testing.T) {
	blocks := -1
	p := &fakePicker{policy: BodyPolicy{Wait: true}, answer: func(r *Request) Answer {
		blocks = len(r.Facts.Chain)
		return Answer{Endpoints: List{"10.0.0.1:8000"}}
	}}
	c := start(t, p)
	for path, want := range map[string]int{"/v1/completions": 3, "/v1/unknown": 0} {
		k := open(t, c)
		headers := headersOf(modeBuffered, false)
		headers.GetRequestHeaders().Headers.Headers[0].RawValue = []byte(path)
		k.send(headers)
		k.receive()
		k.send(bodyOf(`{"prompt":"`+strings.Repeat("p", 1000)+`"}`, true))
		k.receive()
		if blocks != want {
			t.Errorf("%s: %d blocks, want %d", path, blocks, want)
		}
	}
}
