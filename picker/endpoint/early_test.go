package endpoint

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A first byte before the first token leaves the backlog, the rate and the latency unchanged.
func TestFirstToken_EarlyEventIsNone(t *testing.T) {
	_, e, _ := twoEndpoints(nil)
	leases := NewLeases("me", time.Hour)
	work := Work{Tokens: 4000, Rate: 4000, Stream: true, Early: true, Features: Features{Prefill: 1}, TokenBytes: 200}
	for i := range 20 {
		now := epoch.Add(time.Duration(i) * time.Hour)
		lease := leases.Open(e, Holder{}, work, 0, now)
		lease.Waits()
		lease.Begun(70 * time.Millisecond)
		if s := at(e, time.Duration(i)*time.Hour); s.Unread != 4000 || s.Confirmed != 0 {
			t.Fatalf("after the event %d tokens are unread, of which %d are confirmed, want 4000 and 0",
				s.Unread, s.Confirmed)
		}
		lease.Wrote(2000, time.Second)
		lease.Release()
		lease.Done()
	}
	if s := at(e, 0); s.Unread != 0 || s.Rate != 0 || s.Hint != 0 || s.Latency != nil {
		t.Errorf("%+v, want Unread 0, Rate 0, Hint 0", s)
	}
}

// First a server sends an event after a constant time. Then another server replaces it, whose first
// byte is a token.
func TestFirstToken_ConstantTimeIsNoRateUntilItGrowsWithPrompts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	_, e, _ := twoEndpoints(nil)
	leases := NewLeases("me", time.Hour)
	now := epoch
	serve := func(after func(tokens float64) float64) State {
		for range 2 * samples {
			tokens := 300 + random.IntN(8000)
			lease := leases.Open(e, Holder{}, Work{
				Tokens: tokens, Rate: 4000, Stream: true, Measure: true, Early: e.State().Early,
			}, 0, now)
			lease.Begun(time.Duration(after(float64(tokens)) * 1e9))
			lease.Release()
			lease.Done()
			now = now.Add(time.Minute)
		}
		return e.State()
	}
	// The wait in the engine's queue hides the time to read a prompt.
	queued := func(float64) float64 { return 1 + 12*random.Float64() }
	constant := func(float64) float64 { return .2 + .05*random.Float64() }
	grows := func(tokens float64) float64 { return .02 + tokens/8000*(.8+.4*random.Float64()) }
	if s := serve(grows); s.Early || s.Rate < 7000 {
		t.Errorf("first tokens: got %+v, want a rate of at least 7000, and not Early", s)
	}
	if s := serve(queued); s.Early {
		t.Errorf("first tokens behind a queue: got %+v, want not Early", s)
	}
	if s := serve(constant); !s.Early || s.Rate != 0 {
		t.Errorf("events: got %+v, want Early and no rate", s)
	}
	if s := serve(grows); s.Early || s.Rate < 7000 {
		t.Errorf("first tokens again: got %+v, want a rate of at least 7000, and not Early", s)
	}
}

func TestFirstToken_EngineDecidesAboutResponsesAPI(t *testing.T) {
	for engine, want := range map[Engine]bool{"": true, VLLM: true, SGLang: false, LlamaCPP: false} {
		r := NewRegistry(Config{})
		e := &r.Snapshot(Metrics{Engine: engine}, nil, []Spec{{Addr: addrA}}).Endpoints[0]
		if e.FirstEventIsEarly() != want {
			t.Errorf("%q: %t", engine, !want)
		}
	}
}
