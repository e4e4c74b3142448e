package picker

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
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
	"github.com/vmihailenco/msgpack/v5"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/picker/request"
	"github.com/penstock-project/penstock/picker/zmtp"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// publisher is the PUB socket of a model server.
type publisher struct {
	zmtp.Publisher
	seq uint64
}

func (p *publisher) publish(t *testing.T, events ...any) {
	t.Helper()
	batch, err := msgpack.Marshal([]any{0.5, events, 0})
	if err != nil {
		t.Fatal(err)
	}
	p.Send(nil, binary.BigEndian.AppendUint64(nil, p.seq), batch)
	p.seq++
}

// pickTokens returns the endpoint that is picked for a prompt of token IDs, and ends the request.
func pickTokens(t *testing.T, p *Picker, tokens []uint32) string {
	t.Helper()
	body, _ := json.Marshal(map[string]any{"model": "base", "prompt": tokens})
	s := request.New(request.Completions)
	defer s.Release()
	s.Write(body)
	r := extproc.Request{Pool: "ns/pool", Headers: new(extproc.Message), Facts: s.Facts()}
	a := p.Pick(context.Background(), &r)
	if id := a.Lease.String(); id != "" {
		p.leases.Find(id).Release()
	}
	return a.Endpoints.String()
}

func TestKVEvents_RequestGoesWhereItsPromptIsReported(t *testing.T) {
	p, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = p.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	var publishers [3]publisher
	var port uint16
	for i := range publishers {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.%d:%d", i+1, port))
		if err != nil {
			t.Fatal(err)
		}
		port = netip.MustParseAddrPort(listener.Addr().String()).Port()
		go func() { _ = publishers[i].Serve(ctx, listener) }()
	}
	servers := specs("127.0.0.1:8000", "127.0.0.2:8000", "127.0.0.3:8000")
	servers[2].Draining = true // it reports nothing, and is picked for nothing
	setPools(t, p, Pool{ID: poolID("ns/pool"), Endpoints: servers, Metrics: endpoint.Metrics{Off: true}, KVEvents: &KVEvents{Port: port}})

	tokens := make([]uint32, 4096)
	for i := range tokens {
		tokens[i] = uint32(i * 31)
	}
	hashes := make([]any, len(tokens)/16)
	for i := range hashes {
		hashes[i] = uint64(1000 + i)
	}
	poll.Until(t, "the picker subscribes", func() bool {
		return publishers[0].Subscribers()+publishers[1].Subscribers()+publishers[2].Subscribers() == 3
	})
	for i := range publishers[:2] {
		publishers[i].publish(t, []any{"AllBlocksCleared"})
	}
	reported := func(i int) int32 {
		cached := []int32{-1}
		var prompt prefix.Tokens
		for _, id := range tokens {
			prompt.Add(id)
		}
		exact := prompt.Exact()
		p.prompts.prefixes.MatchReports(&exact, "base", []*prefix.Server{p.pool("ns/pool").snapshot.Find(servers[i].Addr).Prefixes()}, cached)
		return cached[0]
	}
	for _, holder := range []int{1, 0} {
		publishers[holder].publish(t, []any{"BlockStored", hashes, nil, tokens, 16})
		poll.Until(t, "the report arrives", func() bool { return reported(holder) == 4096 })
		for range 10 {
			if got, want := pickTokens(t, p, tokens), servers[holder].Addr.String(); got != want {
				t.Errorf("a request goes to %s, and its prompt is at %s", got, want)
			}
		}
		publishers[holder].publish(t, []any{"BlockRemoved", hashes})
		poll.Until(t, "the removal arrives, and the last pick is over", func() bool { return reported(holder) == 0 })
	}
	third := p.pool("ns/pool").snapshot.Find(servers[2].Addr).Prefixes()
	if third.Knowledge() != prefix.Guessed {
		t.Errorf("a server without events is %v", third.Knowledge())
	}
}

func TestKVEvents_ExplainShowsWhyThereAreNone(t *testing.T) {
	p := runPicker(t, Config{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), Body: BodyPrompts, Endpoints: specs("127.0.0.1:8000"), Metrics: endpoint.Metrics{Off: true}, KVEvents: &KVEvents{Port: netip.MustParseAddrPort(listener.Addr().String()).Port()}},
		Pool{ID: poolID("ns/turn"), Strategy: "round-robin", Body: BodyPrompts, Endpoints: specs("127.0.0.1:8000"), Metrics: endpoint.Metrics{Off: true}, KVEvents: &KVEvents{Port: 1}},
		Pool{ID: poolID("ns/unread"), Endpoints: specs("127.0.0.1:8000"), Metrics: endpoint.Metrics{Off: true}, KVEvents: &KVEvents{Port: 1}},
		Pool{ID: poolID("ns/without"), Endpoints: specs("127.0.0.1:8000"), Metrics: endpoint.Metrics{Off: true}},
	)
	poll.NoError(t, "the reason is shown", poll.Limit, func() error {
		if got := p.Explain("ns/pool", nil).Verdicts[0].Prefixes; !strings.HasPrefix(got, "guessed (KV events at "+listener.Addr().String()+": ") || !strings.Contains(got, "connection refused") {
			return fmt.Errorf("%q", got)
		}
		return nil
	})
	failures := 0.0
	p.pool("ns/pool").events.Failures(func(_ netip.AddrPort, times uint64) { failures += float64(times) })
	if got := p.Explain("ns/without", nil).Verdicts[0].Prefixes; got != "" || failures == 0 {
		t.Errorf("%q, %v failures", got, failures)
	}
	for _, name := range []string{"ns/turn", "ns/unread"} {
		if got := p.Explain(name, nil).Verdicts[0].Prefixes; got != "" {
			t.Errorf("%s compares no prompts, and shows prefixes %s", name, got)
		}
	}
}

// TestKVEvents_TextPromptIsRendered has a server that renders: the picker needs the body for it, which Envoy sends in BUFFERED.
func TestKVEvents_TextPromptIsRendered(t *testing.T) {
	tokens := make([]uint32, 1024)
	for i := range tokens {
		tokens[i] = uint32(i * 31)
	}
	const text = "A question that is long enough to have a block of its own in the chain of prefixes, which is 256 bytes. "
	body, _ := json.Marshal(map[string]any{"model": "base", "messages": []any{map[string]any{"role": "user", "content": strings.Repeat(text, 8)}}})
	var rendered atomic.Int32
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/v1/chat/completions/render" || !bytes.Equal(got, body) {
			t.Errorf("%s with %d bytes", r.URL, len(got))
		}
		rendered.Add(1)
		_ = json.NewEncoder(w).Encode(map[string]any{"token_ids": tokens})
	}))
	defer model.Close()
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
	pick := func() []byte {
		stream, cancel := call(t, conn, "x-penstock-pool", "ns/pool")
		defer cancel()
		headers := headerMessage(nil, ":path", "/v1/chat/completions", "content-type", "application/json")
		headers.GetRequestHeaders().EndOfStream = false
		headers.ProtocolConfig = &extprocv3.ProtocolConfiguration{RequestBodyMode: filterv3.ProcessingMode_BUFFERED}
		exchange(t, stream, headers)
		answer := exchange(t, stream, &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestBody{RequestBody: &extprocv3.HttpBody{Body: body, EndOfStream: true}}})
		if answer.GetRequestBody() == nil {
			t.Fatalf("%v", answer)
		}
		return answer.GetRequestBody().GetResponse().GetBodyMutation().GetBody()
	}
	unread := func() int64 { return p.pool("ns/pool").snapshot.Endpoints[0].State().Unread }
	pick()
	if got := unread(); got != 1024 {
		t.Errorf("a prompt of 1,024 tokens counts as %d to be read", got)
	}
	events.publish(t, []any{"BlockStored", hashes, nil, tokens, 16})
	poll.Until(t, "the pick's two seconds are over, and the report stays", func() bool { return load.Prefixes().Picks() == 0 })
	pick()
	if got := unread(); got != 1024 {
		t.Errorf("with a second one that is cached, %d tokens are to be read", got)
	}
	if rendered.Load() != 1 {
		t.Errorf("the prompt was rendered %d times", rendered.Load())
	}
	// Dynamo's frontends get the token IDs, which are then kept.
	pool.Strategy, pool.Plugins = "plugins", parsed(t, "plugins: [{type: active-request-scorer}, {type: dynamo-headers}]")
	setPools(t, p, pool)
	for range 2 {
		var got struct {
			Nvext struct {
				Tokens []uint32 `json:"token_data"`
			} `json:"nvext"`
			Messages []any `json:"messages"`
		}
		if err := json.Unmarshal(pick(), &got); err != nil || !slices.Equal(got.Nvext.Tokens, tokens) || len(got.Messages) != 1 {
			t.Errorf("the frontend gets %d token IDs, %v", len(got.Nvext.Tokens), err)
		}
	}
	if rendered.Load() != 2 {
		t.Errorf("the prompt was rendered %d times", rendered.Load())
	}
	poll.Until(t, "no body is held", func() bool { return p.wire.bodies.Held() == 0 })
}
