package endpoint

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/prefix"
)

var epoch = time.Unix(1000, 0)

func at(e *Endpoint, after time.Duration) (s State) {
	e.ReadState(&s, At(epoch.Add(after)))
	return s
}

func TestPrefill_BacklogShrinksWithTimeAndEndsWithFirstToken(t *testing.T) {
	_, first, second := twoEndpoints(nil)
	leases := NewLeases("me", time.Hour)
	work := Work{Tokens: 2000, Rate: 1000, Stream: true}
	a, b := leases.Open(first, Holder{}, work, 0, epoch), leases.Open(first, Holder{}, work, 0, epoch)
	for _, c := range []struct {
		what      string
		do        func()
		after     time.Duration
		unread    int64
		confirmed int64
		reading   float64
	}{
		{"two prompts", func() {}, 0, 4000, 0, 4},
		{"a second later", func() {}, time.Second, 4000, 0, 3},
		{"all should be read", func() {}, 5 * time.Second, 4000, 0, 0},
		{"a report shows that one waits", a.Waits, time.Second, 4000, 2000, 3},
		{"and again", a.Waits, time.Second, 4000, 2000, 3},
		{"its first token", func() { a.Begun(0) }, time.Second, 2000, 0, 3},
		{"a report that comes late", a.Waits, time.Second, 2000, 0, 3},
		{"the other one moves", func() { b.MoveTo(second.Load(), epoch) }, 0, 0, 0, 0},
		{"the end of the first one", func() { a.Release(); a.Begun(0); a.Waits() }, 0, 0, 0, 0},
	} {
		c.do()
		if s := at(first, c.after); s.Unread != c.unread || s.Confirmed != c.confirmed || s.Reading != c.reading {
			t.Errorf("%s: %d unread, %d of them confirmed, %v s; want %d, %d, %v", c.what, s.Unread, s.Confirmed,
				s.Reading, c.unread, c.confirmed, c.reading)
		}
	}
	if s := at(second, 0); s.Unread != 2000 || s.Reading != 2 || s.Prompt != 2000 {
		t.Errorf("at the endpoint that serves the request: %+v, want Unread 2000, Reading 2, Prompt 2000", s)
	}
	b.Release()
	// Before that, everything sent has been read.
	leases.Open(second, Holder{}, work, 0, epoch.Add(-time.Minute))
	if s := at(second, -time.Minute); s.Reading != 2 {
		t.Errorf("%v s to read one prompt, want 2", s.Reading)
	}
}

// One huge prompt must not dominate the mean, which estimates other clients' waiting requests and
// unknown prompts.
func TestPrefill_OneHugePromptIsNotTheMean(t *testing.T) {
	_, first, _ := twoEndpoints(nil)
	leases := NewLeases("me", time.Hour)
	send := func(tokens int) float64 {
		leases.Open(first, Holder{}, Work{Tokens: tokens, Rate: 1000}, 0, epoch).Release()
		return at(first, 0).Prompt
	}
	if mean := send(2_500_000); mean > 4096 {
		t.Errorf("after it alone: %v, want at most 4096", mean)
	}
	for range 200 {
		send(500)
	}
	before := send(500)
	if mean := send(2_500_000); mean > 2*before {
		t.Errorf("%v before, and %v after it, want at most %v", before, mean, 2*before)
	}
	for range 400 {
		send(8000)
	}
	if mean := send(8000); mean < 7900 {
		t.Errorf("all prompts have 8,000 tokens, and the mean is %v, want at least 7900", mean)
	}
}

// Concurrent reports about one request, from Envoy's workers and peers, leave no backlog.
func TestPrefill_ConcurrentReportsLeaveNoBacklog(t *testing.T) {
	_, first, second := twoEndpoints(nil)
	leases := NewLeases("me", time.Hour)
	var run sync.WaitGroup
	for i := range 200 {
		lease := leases.Open(first, Holder{}, Work{
			Tokens: 100 + i, Rate: 1000, Stream: true, Measure: true, Trial: i%50 == 0,
		}, 0, epoch)
		if lease == nil {
			continue // another trial is in flight
		}
		for _, report := range []func(){lease.Waits, func() { lease.Begun(time.Second) },
			func() { lease.MoveTo(second.Load(), epoch) }, func() { lease.MoveTo(first.Load(), epoch) },
			func() { lease.Release() }} {
			run.Go(report)
		}
	}
	run.Wait()
	for _, e := range []*Endpoint{first, second} {
		if s := at(e, 0); s.Unread != 0 || s.Confirmed != 0 || s.InFlight != 0 || !s.Trial {
			t.Errorf("after the end: got %+v, want nothing in flight or unread, and a trial", s)
		}
	}
}

func TestPrefill_RateIsLearnedFromManyAndNotFromOne(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, tt := range []struct {
		name   string
		after  func(i int, tokens float64) float64 // seconds to the first byte
		lo, hi float64
	}{
		{"steady", func(_ int, tokens float64) float64 { return .02 + tokens/8000 }, 7990, 8010},
		{"noise", func(_ int, tokens float64) float64 { return .02 + tokens/8000*(.8+.4*random.Float64()) }, 7000,
			10000},
		{"every fifth one waits for another sender",
			func(i int, tokens float64) float64 { return .02 + tokens/8000*float64(1+9*(i%5/4)) }, 7990, 8010},
		{"every fifth one lies", func(i int, tokens float64) float64 {
			return .001 + (.02+tokens/8000)*float64(1-i%5/4)
		}, 7000, 8010},
		{"an event before the prompt is read", func(int, float64) float64 { return .004 }, 0, 0},
		{"an event after a constant time", func(int, float64) float64 { return .15 + .05*random.Float64() }, 0, 0},
		{"slower than any server", func(_ int, tokens float64) float64 { return tokens / 50 }, minRate, minRate},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, e, _ := twoEndpoints(nil)
			leases := NewLeases("me", time.Hour)
			for i := range 100 {
				now, tokens := epoch.Add(time.Duration(i)*time.Hour), 300+random.IntN(8000)
				lease := leases.Open(e, Holder{}, Work{Tokens: tokens, Rate: 4000, Stream: true, Measure: true}, 0, now)
				if i == enough-1 && at(e, 0).Rate != 0 {
					t.Error("learned from too few requests")
				}
				lease.Begun(time.Duration(tt.after(i, float64(tokens)) * 1e9))
				lease.Release()
			}
			if got := at(e, 0).Rate; got < tt.lo || got > tt.hi {
				t.Errorf("%.0f tokens a second, want at least %.0f and at most %.0f", got, tt.lo, tt.hi)
			}
		})
	}
}

func TestPrefill_BacklogIsPartOfWhatIsMeasured(t *testing.T) {
	_, e, _ := twoEndpoints(nil)
	leases := NewLeases("me", time.Hour)
	work := Work{Tokens: 4000, Rate: 8000, Stream: true, Measure: true}
	for i := range 20 {
		now := epoch.Add(time.Duration(i) * time.Hour)
		a, b := leases.Open(e, Holder{}, work, 0, now), leases.Open(e, Holder{}, work, 0, now)
		a.Begun(step + 500*time.Millisecond)
		b.Begun(step + time.Second)
		a.Release()
		b.Release()
	}
	if got := at(e, 0).Rate; got < 7990 || got > 8010 {
		t.Errorf("%.0f tokens a second, of a server that reads 8,000, want at least 7990 and at most 8010", got)
	}
}

func TestScrape_SizeOfTheCacheBoundsItsPrefixes(t *testing.T) {
	index := prefix.New(prefix.Config{})
	r := NewRegistry(Config{Jitter: func() float64 { return 0 }, Prefixes: index})
	e := &r.Snapshot(Metrics{}, nil, []Spec{{Addr: addrA}}).Endpoints[0]
	chain, cached := prefix.Chain{1, 2, 3, 4}, make([]int32, 1)
	for _, c := range []struct{ tokens, want int }{{0, 256}, {128, 128}, {0, 128}, {1 << 20, 256}} {
		e.BeginScrape().Succeed(Reading{CacheTokens: c.tokens}, epoch)
		index.Add(e.Load().Prefixes(), chain)
		index.Match(chain, []*prefix.Server{e.Load().Prefixes()}, cached)
		if int(cached[0]) != c.want {
			t.Errorf("a page with %d tokens: %d of 256 are cached, want %d", c.tokens, cached[0], c.want)
		}
	}
}

func TestScrape_OthersAreWhatLeasesDoNotCount(t *testing.T) {
	r := NewRegistry(Config{Jitter: func() float64 { return 0 }})
	e := &r.Snapshot(Metrics{}, nil, []Spec{{Addr: addrA}}).Endpoints[0]
	leases := NewLeases("me", time.Hour)
	open := func(n int) {
		for range n {
			leases.Open(e, Holder{}, Work{}, 0, epoch)
		}
	}
	for _, c := range []struct {
		name           string
		before, during int // this process's requests before and during the scrape
		peers          int64
		page           Reading
		queue, running float64
	}{
		{"ours alone", 4, 0, 0, Reading{Queue: 1, Running: 3}, 0, 0},
		{"another sender's", 0, 0, 0, Reading{Queue: 4, Running: 8}, 8. / 3, 16. / 3},
		{"those sent during the scrape", 0, 4, 0, Reading{Queue: 4, Running: 8}, 4. / 3, 8. / 3},
		{"peers'", 0, 0, 4, Reading{Queue: 6, Running: 6}, 0, 0},
		{"an empty page", 0, 0, 0, Reading{}, 0, 0},
	} {
		open(c.before)
		r.SetElsewhere(addrA, Elsewhere{InFlight: c.peers}, time.Now())
		scrape := e.BeginScrape()
		open(c.during)
		scrape.Succeed(c.page, epoch)
		if s := at(e, 0); s.OthersQueue != c.queue || s.OthersRunning != c.running {
			t.Errorf("%s: %v wait and %v run, want %v and %v", c.name, s.OthersQueue, s.OthersRunning, c.queue,
				c.running)
		}
	}
}

// Peers' prompts count in the backlog, because a server reads all prompts at one rate.
func TestPrefill_PromptsOfPeersAreBacklog(t *testing.T) {
	r := NewRegistry(Config{Jitter: func() float64 { return 0 }})
	e := &r.Snapshot(Metrics{Off: true}, nil, []Spec{{Addr: addrA}}).Endpoints[0]
	leases := NewLeases("me", time.Hour)
	now := time.Now()
	at := func(after time.Duration) (s State) {
		e.ReadState(&s, At(now.Add(after)))
		return s
	}
	mine := leases.Open(e, Holder{}, Work{Tokens: 1000, Rate: 1000}, 0, now)
	r.SetElsewhere(addrA, Elsewhere{InFlight: 2, Unread: 2000, Confirmed: 500, Sent: 2 * time.Second}, now)
	if s := at(time.Second); s.InFlight != 3 || s.Unread != 3000 || s.Confirmed != 500 || s.Reading < 1.99 ||
		s.Reading > 2.01 {
		t.Errorf("1 s after prompts of 3 s in all: got %+v, want 3 in flight, 3000 unread, 500 confirmed, 2 s of "+
			"reading", s)
	}
	// A peer's request gets its first token, and another one is sent.
	r.SetElsewhere(addrA, Elsewhere{InFlight: 3, Unread: 2500, Sent: time.Second / 2}, now.Add(time.Second))
	if s := at(time.Second); s.Unread != 3500 || s.Confirmed != 0 || s.Reading < 2.49 || s.Reading > 2.51 {
		t.Errorf("half a second more: %+v, want Unread 3500, Confirmed 0, Reading at least 2.49, Reading at most 2.51",
			s)
	}
	if c := r.Counts(now); len(c) != 1 || c[0].InFlight != 1 || c[0].Unread != 1000 || c[0].Sent != time.Second ||
		c[0].Rate != 0 {
		t.Errorf("published: %+v, want this process's own", c)
	}
	mine.Release()
	r.SetElsewhere(addrA, Elsewhere{}, now)
	if s := at(time.Second); s.InFlight != 0 || s.Unread != 0 || s.Reading != 0 {
		t.Errorf("when all have ended: %+v, want InFlight 0, Unread 0, Reading 0", s)
	}
	// The server has nothing to read, so a new prompt begins at once.
	leases.Open(e, Holder{}, Work{Tokens: 1000, Rate: 1000}, 0, now)
	if s := at(0); s.Reading < 0.99 || s.Reading > 1.01 {
		t.Errorf("a prompt of a second: %+v, want Reading at least 0.99 and Reading at most 1.01", s)
	}
}

// A starting process takes over its peers' unread prompts and learned rates.
func TestPrefill_ProcessThatStartsTakesOverBacklogAndRate(t *testing.T) {
	r := NewRegistry(Config{Jitter: func() float64 { return 0 }})
	now := time.Now()
	// a peer's counts arrive before the pool exists here
	r.SetElsewhere(addrA, Elsewhere{InFlight: 2, Unread: 8000, Reading: time.Second, Rate: 6000}, now)
	s := r.Snapshot(Metrics{Off: true}, nil, []Spec{{Addr: addrA}}).Endpoints[0].State()
	if s.InFlight != 2 || s.Unread != 8000 || s.Rate != 6000 || s.Reading < 0.5 || s.Reading > 1.01 {
		t.Errorf("%+v, want InFlight 2, Unread 8000, Rate 6000, Reading at least 0.5, Reading at most 1.01", s)
	}
}
