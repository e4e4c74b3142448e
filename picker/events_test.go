package picker

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/picker/request"
	"github.com/penstock-project/penstock/picker/zmtp"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

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
	servers[2].Draining = true // a draining server reports nothing and gets no picks
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), Endpoints: servers, Metrics: endpoint.Metrics{Off: true},
			KVEvents: &KVEvents{Port: port}})

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
		p.prompts.prefixes.MatchReports(&exact, "base",
			[]*prefix.Server{p.pool("ns/pool").snapshot.Find(servers[i].Addr).Prefixes()}, cached)
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
		t.Errorf("a server without events is %v, want %v", third.Knowledge(), prefix.Guessed)
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
		Pool{ID: poolID("ns/pool"), Body: BodyPrompts, Endpoints: specs("127.0.0.1:8000"),
			Metrics: endpoint.Metrics{Off: true}, KVEvents: &KVEvents{
				Port: netip.MustParseAddrPort(listener.Addr().String()).Port(),
			}},
		Pool{ID: poolID("ns/turn"), Strategy: "round-robin", Body: BodyPrompts, Endpoints: specs("127.0.0.1:8000"),
			Metrics: endpoint.Metrics{Off: true}, KVEvents: &KVEvents{Port: 1}},
		Pool{ID: poolID("ns/unread"), Endpoints: specs("127.0.0.1:8000"), Metrics: endpoint.Metrics{Off: true},
			KVEvents: &KVEvents{Port: 1}},
		Pool{ID: poolID("ns/without"), Endpoints: specs("127.0.0.1:8000"), Metrics: endpoint.Metrics{Off: true}},
	)
	poll.NoError(t, "the reason is shown", poll.Limit, func() error {
		if got := p.Explain("ns/pool", nil).Verdicts[0].Prefixes; !strings.HasPrefix(got,
			"guessed (KV events at "+listener.Addr().String()+": ") || !strings.Contains(got, "connection refused") {
			return fmt.Errorf(`got %q, want "guessed" with the address, and "connection refused"`, got)
		}
		return nil
	})
	failures := 0.0
	p.pool("ns/pool").events.Failures(func(_ netip.AddrPort, times uint64) { failures += float64(times) })
	if got := p.Explain("ns/without", nil).Verdicts[0].Prefixes; got != "" || failures == 0 {
		t.Errorf("of a pool without events: prefixes %q and %v failures, want none and some", got, failures)
	}
	for _, name := range []string{"ns/turn", "ns/unread"} {
		if got := p.Explain(name, nil).Verdicts[0].Prefixes; got != "" {
			t.Errorf("%s compares no prompts: got prefixes %s, want none", name, got)
		}
	}
}
