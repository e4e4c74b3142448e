package picker

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// rendering starts a server that renders body as tokens, and counts its calls.
func rendering(t *testing.T, body []byte, tokens []uint32) (*httptest.Server, *atomic.Int32) {
	rendered := new(atomic.Int32)
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/v1/chat/completions/render" || !bytes.Equal(got, body) {
			t.Errorf("got %s with %d bytes, want /v1/chat/completions/render with %d", r.URL, len(got), len(body))
		}
		rendered.Add(1)
		_ = json.NewEncoder(w).Encode(map[string]any{"token_ids": tokens})
	}))
	t.Cleanup(model.Close)
	return model, rendered
}

func changedBody(t *testing.T, conn *grpc.ClientConn, body []byte) []byte {
	t.Helper()
	stream, cancel := call(t, conn, "x-penstock-pool", "ns/pool")
	defer cancel()
	headers := headerMessage(nil, ":path", "/v1/chat/completions", "content-type", "application/json")
	headers.GetRequestHeaders().EndOfStream = false
	headers.ProtocolConfig = &extprocv3.ProtocolConfiguration{RequestBodyMode: filterv3.ProcessingMode_BUFFERED}
	exchange(t, stream, headers)
	answer := exchange(t, stream, &extprocv3.ProcessingRequest{
		Request: &extprocv3.ProcessingRequest_RequestBody{
			RequestBody: &extprocv3.HttpBody{Body: body, EndOfStream: true},
		},
	})
	if answer.GetRequestBody() == nil {
		t.Fatalf("got %v, want an answer to the body", answer)
	}
	return answer.GetRequestBody().GetResponse().GetBodyMutation().GetBody()
}

// TestKVEvents_TextPromptIsRendered uses BUFFERED, because a server renders the prompt from the
// body.
func TestKVEvents_TextPromptIsRendered(t *testing.T) {
	tokens := make([]uint32, 1024)
	for i := range tokens {
		tokens[i] = uint32(i * 31)
	}
	const text = "A question that is long enough to have a block of its own in the chain of prefixes, which is " +
		"256 bytes. "
	body, _ := json.Marshal(map[string]any{"model": "base",
		"messages": []any{map[string]any{"role": "user", "content": strings.Repeat(text, 8)}}})
	model, rendered := rendering(t, body, tokens)
	p := runPicker(t, Config{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var events publisher
	go func() { _ = events.Serve(t.Context(), listener) }()
	at := netip.MustParseAddrPort(listener.Addr().String())
	server := specs(model.Listener.Addr().String())
	pool := Pool{
		ID: poolID("ns/pool"), Endpoints: server, Metrics: endpoint.Metrics{Off: true}, Body: BodyPrompts,
		KVEvents: &KVEvents{Port: at.Port(), Render: time.Minute},
	}
	setPools(t, p, pool)
	poll.Until(t, "the picker subscribes", func() bool { return events.Subscribers() == 1 })
	events.publish(t, []any{"AllBlocksCleared"})
	load := p.pool("ns/pool").snapshot.Find(server[0].Addr)
	poll.Until(t, "the server reports", func() bool { return load.Prefixes().Knowledge() == prefix.Reported })
	hashes := make([]any, len(tokens)/16)
	for i := range hashes {
		hashes[i] = uint64(1000 + i)
	}
	_, address := servePicker(t, p)
	conn := dialPicker(t, address)
	pick := func() []byte { return changedBody(t, conn, body) }
	unread := func() int64 { return p.pool("ns/pool").snapshot.Endpoints[0].State().Unread }
	pick()
	if got := unread(); got != 1024 {
		t.Errorf("a prompt of 1,024 tokens counts as %d to be read, want 1024", got)
	}
	events.publish(t, []any{"BlockStored", hashes, nil, tokens, 16})
	poll.Until(t, "the pick's two seconds are over, and the report stays",
		func() bool { return load.Prefixes().Picks() == 0 })
	pick()
	if got := unread(); got != 1024 {
		t.Errorf("with a second one that is cached, %d tokens are to be read, want 1024", got)
	}
	if rendered.Load() != 1 {
		t.Errorf("the prompt was rendered %d times, want 1", rendered.Load())
	}
	// Dynamo's frontend gets the token IDs, so the picker keeps them.
	pool.Strategy, pool.Plugins = "plugins",
		parsed(t, "plugins: [{type: active-request-scorer}, {type: dynamo-headers}]")
	setPools(t, p, pool)
	for range 2 {
		var got struct {
			Nvext struct {
				Tokens []uint32 `json:"token_data"`
			} `json:"nvext"`
			Messages []any `json:"messages"`
		}
		if err := json.Unmarshal(pick(), &got); err != nil || !slices.Equal(got.Nvext.Tokens, tokens) ||
			len(got.Messages) != 1 {
			t.Errorf("the frontend gets %d token IDs, %v; want %d and the message",
				len(got.Nvext.Tokens), err, len(tokens))
		}
	}
	if rendered.Load() != 2 {
		t.Errorf("the prompt was rendered %d times, want 2", rendered.Load())
	}
	poll.Until(t, "no body is held", func() bool { return p.wire.bodies.Held() == 0 })
}

// A record has no prompt length that is only an unused estimate from content-length.
func TestExplain_PicksHaveTheLengthOfAPromptThatIsReadOrDecides(t *testing.T) {
	for _, tt := range []struct {
		pool Pool
		body string // "read", "unread" (400 bytes), or "" for no body
		want int
	}{
		{Pool{Strategy: "round-robin"}, "unread", 0}, {Pool{Strategy: "session"}, "unread", 0},
		{Pool{Strategy: "least-request"}, "unread", 0}, {Pool{Strategy: "round-robin"}, "", 0},
		{Pool{Strategy: "load"}, "unread", 100}, {
			Pool{Strategy: "least-request", ShedAfter: time.Minute}, "unread", 100,
		}, {Pool{Strategy: "load"}, "", 0},
		{Pool{Strategy: "load"}, "read", 40}, {Pool{Strategy: "chwbl", Body: BodyBuffered}, "read", 40},
	} {
		p := runPicker(t, Config{})
		tt.pool.ID, tt.pool.Endpoints = poolID("ns/pool"), specs("10.0.0.1:80")
		setPools(t, p, tt.pool)
		if tt.body == "read" {
			p.Pick(t.Context(), longPrompt(40))
		} else {
			_, address := servePicker(t, p)
			stream, _ := call(t, dialPicker(t, address), "x-penstock-pool", "ns/pool")
			headers := headerMessage(nil, ":path", "/v1/completions", "content-length", "400")
			headers.GetRequestHeaders().EndOfStream = tt.body == ""
			exchange(t, stream, headers)
		}
		if got := p.Picks(Picks{}); len(got) != 1 || got[0].Tokens != tt.want {
			t.Errorf("strategy %s, body %q: %+v, want %d tokens", tt.pool.Strategy, tt.body, got, tt.want)
		}
	}
}
