package endpoint

import (
	"net/netip"
	"testing"
	"time"
)

// served makes a server answer n streams with these times to headers and first byte.
func served(leases *Leases, e *Endpoint, n, tokens int, early bool, headers, first time.Duration) {
	for range n {
		lease := leases.Open(e, Holder{}, Work{Stream: true, Early: early}, 0, epoch)
		lease.SetTag(Tag{Tokens: tokens})
		lease.Answered(headers, first)
		lease.Begun(first)
		lease.Answered(time.Hour, time.Hour) // the last entry of the access log
		lease.Release()
		lease.Done()
	}
}

func TestHeadersLimit_IsByWhatHeadersOfSuchPromptsTake(t *testing.T) {
	const ms = time.Millisecond
	type responses struct {
		n, tokens      int
		early          bool
		headers, first time.Duration
	}
	for name, tt := range map[string]struct {
		seen  []responses
		short time.Duration // for a prompt of 100 tokens
		long  time.Duration // for a prompt of 30,000 tokens
	}{
		"a new server":              {nil, 0, 0},
		"too few responses to know": {[]responses{{19, 100, false, ms, 90 * ms}}, 0, 0},
		"too few for a percentile": {[]responses{{99, 100, false, ms, 90 * ms}}, 20 * time.Second,
			20 * time.Second},
		"quick headers": {[]responses{{100, 100, false, ms, 90 * ms}}, time.Second,
			20 * time.Second},
		"longer prompts count": {[]responses{{100, 30_000, false, ms, 90 * ms}}, time.Second, time.Second},
		"headers that take half a second": {[]responses{{100, 100, false, 500 * ms, 900 * ms}}, 2 * time.Second,
			20 * time.Second},
		"slow headers of long prompts": {
			[]responses{{900, 100, false, ms, 90 * ms}, {100, 30_000, false, 500 * ms, 900 * ms}}, 2 * time.Second,
			2 * time.Second,
		},
		"one slow response": {
			[]responses{{1, 100, false, time.Minute, time.Hour}, {100, 100, false, ms, 90 * ms}}, time.Second,
			20 * time.Second,
		},
		"a load that grows": {
			[]responses{{500, 100, false, ms, 90 * ms}, {3, 100, false, 500 * ms, time.Hour}}, 2 * time.Second,
			20 * time.Second,
		},
		"a load that is long over": {
			[]responses{{100, 100, false, time.Second, time.Hour}, {200, 100, false, ms, 90 * ms}}, time.Second,
			20 * time.Second,
		},
		"minutes": {[]responses{{100, 100, false, time.Minute, time.Hour}}, 20 * time.Second,
			20 * time.Second},
		"headers with the first token": {[]responses{{200, 100, false, 90 * ms, 91 * ms}}, 0, 0},
		"another engine in its place": {
			[]responses{{200, 100, false, ms, 90 * ms}, {100, 100, false, 90 * ms, 91 * ms}}, 0, 0,
		},
		"events that come with headers": {[]responses{{100, 100, true, 70 * ms, 71 * ms}}, 0, 0},
		"such events of some of the paths": {
			[]responses{{100, 100, false, ms, 90 * ms}, {200, 100, true, 300 * ms, 301 * ms}}, 1200 * ms,
			20 * time.Second,
		},
	} {
		_, e, _ := twoEndpoints(nil)
		leases := NewLeases("me", time.Hour)
		for _, s := range tt.seen {
			served(leases, e, s.n, s.tokens, s.early, s.headers, s.first)
		}
		for tokens, want := range map[int]time.Duration{100: tt.short, 30_000: tt.long} {
			if got := e.Load().HeadersLimit(tokens); got < want || got > want*12/10 {
				t.Errorf("%s: %v for %d tokens, want %v", name, got, tokens, want)
			}
		}
	}
}

// The times count for neither server if another server responds instead of the picked one.
func TestHeadersLimit_OtherServersAndAnswersTeachNothing(t *testing.T) {
	_, first, second := twoEndpoints(nil)
	leases := NewLeases("me", time.Hour)
	for range 200 {
		lease := leases.Open(first, Holder{}, Work{Stream: true}, 0, epoch)
		lease.MoveTo(second.Load(), epoch)
		lease.Answered(time.Millisecond, time.Second)
		lease.Release()
		lease.Done()
		whole := leases.Open(first, Holder{}, Work{}, 0, epoch)
		whole.Answered(time.Millisecond, time.Second)
		whole.Release()
		whole.Done()
	}
	if a, b := first.Load().HeadersLimit(0), second.Load().HeadersLimit(0); a != 0 || b != 0 {
		t.Errorf("%v and %v, want 0 and 0", a, b)
	}
}

// Peers' limits for a server apply until this process has its own, even if the server is added
// later.
func TestHeadersLimit_PeersShareIt(t *testing.T) {
	const ms = time.Millisecond
	learned := func(n int, headers, first time.Duration) *HeaderLimits {
		r, e, _ := twoEndpoints(nil)
		served(NewLeases("peer", time.Hour), e, n, 100, false, headers, first)
		for _, c := range r.Counts(epoch) {
			if c.Addr == e.Addr && c.NewHeaders {
				return c.Headers
			}
		}
		return nil
	}
	quick, slow, together := learned(100, ms, 90*ms), learned(100, 500*ms, 900*ms), learned(100, 90*ms, 91*ms)
	if quick == nil || slow == nil || together == nil {
		t.Fatal("what was learned is not published")
	}
	for name, tt := range map[string]struct {
		peers      *HeaderLimits
		own        int // own responses, whose headers took 500 ms
		want, long time.Duration
	}{
		"nothing is known":           {nil, 0, 0, 0},
		"a peer knows":               {quick, 0, time.Second, 20 * time.Second},
		"few responses of its own":   {quick, 30, time.Second, 20 * time.Second},
		"enough of its own":          {quick, 100, 2 * time.Second, 20 * time.Second},
		"another rate of the peer's": {slow, 0, 2 * time.Second, 20 * time.Second},
		"headers come with the rest": {together, 0, 0, 0},
		"of an earlier engine":       {together, 100, 2 * time.Second, 20 * time.Second},
		"invalid":                    {&HeaderLimits{First: true, Of: [lengths]time.Duration{time.Hour}}, 0, 0, 0},
	} {
		r, e, _ := twoEndpoints(nil)
		r.SetHeadersElsewhere(e.Addr, tt.peers)
		served(NewLeases("me", time.Hour), e, tt.own, 100, false, 500*ms, 900*ms)
		for tokens, want := range map[int]time.Duration{100: tt.want, 30_000: tt.long} {
			if got := e.Load().HeadersLimit(tokens); got < want || got > want*12/10 {
				t.Errorf("%s: %v for %d tokens, want %v", name, got, tokens, want)
			}
		}
	}
	r := NewRegistry(Config{Jitter: func() float64 { return 0 }})
	addr := netip.MustParseAddrPort("10.0.0.9:80")
	r.SetHeadersElsewhere(addr, quick)
	pool := r.Snapshot(Metrics{}, nil, []Spec{{Addr: addr}})
	r.SetHeadersElsewhere(addr, nil) // the peer has ended
	if got := pool.Endpoints[0].Load().HeadersLimit(100); got != time.Second {
		t.Errorf("%v for a server that was added later, want %v", got, time.Second)
	}
}

func TestHeadersLimit_ServerThatLeavesIsRetracted(t *testing.T) {
	r := NewRegistry(Config{Jitter: func() float64 { return 0 }})
	s := r.Snapshot(Metrics{}, nil, []Spec{{Addr: netip.MustParseAddrPort("10.0.0.9:80")}})
	served(NewLeases("me", time.Hour), &s.Endpoints[0], 100, 100, false, time.Millisecond, time.Second)
	if c := r.Counts(epoch); len(c) != 1 || !c[0].NewHeaders || c[0].Headers == nil {
		t.Fatalf("got %+v, want one count with new Headers", c)
	}
	r.Release(s)
	if c := r.Counts(epoch); len(c) != 1 || !c[0].NewHeaders || c[0].Headers != nil {
		t.Errorf("after the server left: got %+v, want one count that retracts Headers", c)
	}
}
