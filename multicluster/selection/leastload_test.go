package selection

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func after(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

// end implements Config.End with blocks of 512 tokens.
func end(i int) int { return 512 * (i + 1) }

// three has the members east (this cluster), north (40 ms away) and west (160 ms away).
func three(t testing.TB, change func(*Config)) *LeastLoad {
	t.Helper()
	c := Config{Local: "east", Margin: DefaultMargin, End: end, Random: rand.New(rand.NewPCG(1, 2)).Uint64}
	if change != nil {
		change(&c)
	}
	l := New(c)
	l.SetMembers([]Member{{Name: "west", RoundTrip: 160 * time.Millisecond}, {Name: "east"},
		{Name: "north", RoundTrip: 40 * time.Millisecond}})
	return l
}

// idle is a report of an idle member whose 8 servers each read 8,000 tokens a second.
func idle(least float64) Report {
	return Report{Least: least, Servers: 8, Rate: 8000, Interval: 200 * time.Millisecond, Capacity: 12_000}
}

func names(choices []Choice) (out []string) {
	for _, c := range choices {
		out = append(out, c.Member)
	}
	return out
}

func chain(prompt uint64, blocks int) []uint64 {
	out := make([]uint64, blocks)
	for i := range out {
		out[i] = prompt<<32 | uint64(i+1)
	}
	return out
}

func TestSelection_CostIsThatOfTheFormula(t *testing.T) {
	l := three(t, nil)
	for name, least := range map[string]float64{"east": 1.5, "north": 0.25, "west": 0.5} {
		l.Report(start, name, idle(least))
	}
	p := Prompt{Tokens: 8192, Chain: chain(1, 16)}
	ranked := l.Rank(start, p, nil)
	want := []Choice{
		{Member: "north", Wait: .25, Prompt: 3.072, RoundTrip: .04, Margin: .1, Cost: 3.462, Uncached: 8192,
			Basis: Reported},
		{Member: "west", Wait: .5, Prompt: 3.072, RoundTrip: .16, Margin: .1, Cost: 3.832, Uncached: 8192,
			Basis: Reported},
		{Member: "east", Wait: 1.5, Prompt: 3.072, Cost: 4.572, Uncached: 8192, Basis: Reported},
	}
	if diff := cmp.Diff(want, ranked, cmpopts.IgnoreUnexported(Choice{}), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("want this ranking (-want +got):\n%s", diff)
	}
	// After a request with the prompt went to north, north has the prompt cached. Of a longer
	// prompt, only the rest is uncached.
	l.Begin(start, ranked[0], p)
	ranked = l.Rank(start, Prompt{Tokens: 8292, Chain: chain(1, 16)}, ranked[:0])
	if c := ranked[0]; c.Member != "north" || c.Uncached != 100 || math.Abs(c.Wait-(.25+(8192./8000+.02)/8)) > 1e-9 {
		t.Errorf("got %+v, want north with 100 uncached, waiting for a share of the first prompt", c)
	}
}

// unreported returns how many requests at each member no report counts yet.
func unreported(l *LeastLoad, now time.Time) (out []int) {
	l.Standings(now)
	for _, m := range l.members {
		out = append(out, m.books.pending)
	}
	return out
}

func bar(l *LeastLoad, now time.Time, name string) { l.find(name).barred = now.Add(barredFor) }

func TestSelection_SessionStaysWhileItsMemberTakesRequests(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"LeastLoad": nil, "Latency": func(c *Config) { c.Latency = true },
	} {
		l := three(t, change)
		rank := func(stay string) []Choice { return l.Rank(start, Prompt{Tokens: 10, Stay: stay}, nil) }
		if got := rank("west"); !slices.Equal(names(got), []string{"west", "east", "north"}) || !got[0].Session ||
			got[1].Session {
			t.Errorf("%s: of a session at west: got %+v, want west by its session, then east, north", name, got)
		}
		for _, stay := range []string{"", "mars"} {
			if got := rank(stay); got[0].Member != "east" || got[0].Session {
				t.Errorf("%s: of a session at %q: got %+v, want east, by no session", name, stay, got)
			}
		}
		bar(l, start, "west")
		if got := rank("west"); !slices.Equal(names(got), []string{"east", "north", "west"}) {
			t.Errorf("%s: while west is barred: %v, want %v", name, names(got), []string{"east", "north", "west"})
		}
		bar(l, start, "north")
		bar(l, start, "east")
		if got := rank("west"); got[0].Member != "west" {
			t.Errorf("%s: while all are barred: got %v, want west first", name, names(got))
		}
	}
}

func TestSelection_OwnClusterServesUnlessAnotherIsCheaperByTheMargin(t *testing.T) {
	for _, c := range []struct {
		least  float64
		margin time.Duration
		want   string
	}{{.1, DefaultMargin, "east"}, {.1, 0, "north"}, {.2, DefaultMargin, "north"}, {.2, time.Second, "east"}} {
		l := three(t, func(cfg *Config) { cfg.Margin = c.margin })
		l.Report(start, "east", idle(c.least))
		l.Report(start, "north", idle(0))
		l.Report(start, "west", idle(0))
		if got := l.Rank(start, Prompt{Tokens: 100}, nil)[0].Member; got != c.want {
			t.Errorf("%g s at the own cluster, margin %s: %s, want %s", c.least, c.margin, got, c.want)
		}
	}
}

func TestSelection_EqualMembersServeEquallyOften(t *testing.T) {
	l := New(Config{End: end, Random: rand.New(rand.NewPCG(1, 2)).Uint64})
	l.SetMembers([]Member{{Name: "a"}, {Name: "b"}, {Name: "c"}})
	got := map[string]int{}
	var out []Choice
	for range 3000 {
		out = l.Rank(start, Prompt{}, out[:0])
		got[out[0].Member]++
	}
	for name, n := range got {
		if n < 900 || n > 1100 {
			t.Errorf("%s: %d of 3000, want at least 900 and at most 1100", name, n)
		}
	}
}

func TestSelection_RequestsSinceTheReportCountUntilAReportHasThem(t *testing.T) {
	l := three(t, nil)
	l.Report(start, "west", idle(0))
	var out []Choice
	west := func(now time.Time) (c Choice) {
		out = l.Rank(now, Prompt{Tokens: 8000}, out[:0])
		for _, c := range out {
			if c.Member == "west" {
				return c
			}
		}
		return c
	}
	each := (1 + .02) / 8
	for i := range 5 {
		now := after(float64(i) / 100)
		c := west(now)
		if want := float64(i) * each; math.Abs(c.Wait-want) > 1e-9 {
			t.Fatalf("after %d requests the wait is %g, want %g", i, c.Wait, want)
		}
		l.Begin(now, c, Prompt{Tokens: 8000})
	}
	for _, report := range []struct{ counted, left float64 }{{2, 3}, {2, 3}, {4, 1}, {5, 0}, {9, 0}} {
		r := idle(0)
		r.Counted = uint64(report.counted)
		l.Report(after(.1), "west", r)
		if got := west(after(.1)).Wait; math.Abs(got-report.left*each) > 1e-9 {
			t.Errorf("a report that counts %g: wait %g, want that of %g requests", report.counted, got, report.left)
		}
	}
	// The report counts 9 requests, although this process sent only 5, because an earlier process
	// sent four. The next request is number 10.
	l.Begin(after(.2), west(after(.2)), Prompt{Tokens: 8000})
	r := idle(0)
	r.Counted = 10
	l.Report(after(.3), "west", r)
	if got := west(after(.3)).Wait; got != 0 {
		t.Errorf("wait %g, want 0", got)
	}
}

func TestSelection_RequestThatNeverArrivesStopsCounting(t *testing.T) {
	l := three(t, nil)
	l.Report(start, "west", idle(0))
	lost := l.Rank(start, Prompt{Tokens: 8000}, nil)
	for _, c := range lost {
		l.Begin(start, c, Prompt{Tokens: 8000})
	}
	l.Report(after(1), "west", idle(0))
	if got := unreported(l, after(1))[2]; got != 1 {
		t.Errorf("after 1 s: %d, want 1", got)
	}
	l.Report(after(1.3), "west", idle(0))
	if got := unreported(l, after(1.3))[2]; got != 0 {
		t.Errorf("after 1.3 s: %d, want 0", got)
	}
}

func TestSelection_RestartedMemberCountsFromZero(t *testing.T) {
	l := three(t, nil)
	r := idle(0)
	r.Counted, r.Epoch = 1000, 1
	l.Report(start, "west", r)
	at := func() Choice {
		for _, c := range l.Rank(after(1), Prompt{Tokens: 80}, nil) {
			if c.Member == "west" {
				return c
			}
		}
		return Choice{}
	}
	l.Begin(after(.5), at(), Prompt{})
	l.Begin(after(1.1), at(), Prompt{})
	r.Counted, r.Epoch = 0, 2
	l.Report(after(1.2), "west", r) // west sent this report before the second request arrived
	if got := unreported(l, after(1.2))[2]; got != 1 {
		t.Errorf("after the restart: got %d requests not counted, want 1", got)
	}
	r.Counted = 1
	l.Report(after(1.3), "west", r)
	if got := unreported(l, after(1.3))[2]; got != 0 {
		t.Errorf("got %d requests not counted, want 0", got)
	}
}

func TestSelection_OwnRequestsCountWithoutReports(t *testing.T) {
	l := three(t, func(c *Config) { c.Margin = 0 })
	l.SetMembers([]Member{{Name: "east", Servers: 1}, {Name: "west", Servers: 1}})
	var out []Choice
	choose := func(now time.Time) Choice {
		out = l.Rank(now, Prompt{Tokens: 4000}, out[:0])
		return out[0]
	}
	first := choose(start)
	one := l.Begin(start, first, Prompt{Tokens: 4000})
	second := choose(start)
	if second.Member == first.Member || second.Wait != 0 || second.Basis != Own {
		t.Fatalf("got %+v after %+v, want another member that is idle, by own requests", second, first)
	}
	two := l.Begin(start, second, Prompt{Tokens: 4000})
	if c := choose(start); math.Abs(c.Wait-1.02) > 1e-9 {
		t.Errorf("with a prompt of a second ahead: got %+v, want a wait of 1.02 s", c)
	}
	if c := choose(after(.4)); math.Abs(c.Wait-.62) > 1e-9 {
		t.Errorf("0.4 s of it are read: got %+v, want a wait of 0.62 s", c)
	}
	// While a request has no first byte, its tokens still count half, even if servers should have
	// read them.
	if c := choose(after(5)); math.Abs(c.Wait-.52) > 1e-9 {
		t.Errorf("it should have been read: got %+v, want a wait of 0.52 s", c)
	}
	one.FirstByte()
	if c := choose(after(5)); c.Member != first.Member || math.Abs(c.Wait-.02) > 1e-9 {
		t.Errorf("after the first byte: got %+v, want %s with a wait of 0.02 s", c, first.Member)
	}
	one.End()
	one.End()
	two.End()
	for _, s := range l.Standings(after(5)) {
		if s.InFlight != 0 {
			t.Errorf("%+v, want InFlight 0", s)
		}
	}
}

func TestSelection_PrefixOfAnotherGatewayAttracts(t *testing.T) {
	l := three(t, nil)
	for _, name := range []string{"east", "north", "west"} {
		r := idle(0)
		if name == "west" {
			r.Blocks = chain(7, 10)
		}
		l.Report(start, name, r)
	}
	if c := l.Rank(start, Prompt{Tokens: 5320, Chain: chain(7, 10)}, nil)[0]; c.Member != "west" || c.Uncached != 200 {
		t.Errorf("got %+v, want west with 200 uncached", c)
	}
	if c := l.Rank(start, Prompt{Tokens: 5320}, nil)[0]; c.Member != "east" {
		t.Errorf("without a chain: got %+v, want east", c)
	}
}

func TestSelection_MemberThatDeclinesIsBarredFor10Seconds(t *testing.T) {
	l := three(t, nil)
	for i := range 3 {
		now := after(float64(i) / 10)
		ranked := l.Rank(now, Prompt{Tokens: 100}, nil)
		if want := []string{"east", "north", "west"}[i]; ranked[0].Member != want {
			t.Fatalf("%d members declined: got %v, want %s first", i, names(ranked), want)
		}
		lease := l.Begin(now, ranked[0], Prompt{Tokens: 100})
		lease.Declined(now)
		lease.Declined(after(100))
	}
	// If all members are barred, the cheapest one gets the request.
	ranked := l.Rank(after(1), Prompt{Tokens: 100}, nil)
	if got := names(ranked); !cmp.Equal(got, []string{"east", "north", "west"}) || ranked[0].Barred != BarredDeclined {
		t.Errorf("got %v %q, want east, north, west, barred as declined", got, ranked[0].Barred)
	}
	if c := l.Rank(after(10.15), Prompt{Tokens: 100}, nil)[2]; c.Member != "west" || c.Barred == "" {
		t.Errorf("got %+v, want west barred", c)
	}
	for _, c := range l.Rank(after(10.2), Prompt{Tokens: 100}, nil) {
		if c.Barred != "" || c.Wait != 0 {
			t.Errorf("got %+v, want it not barred, and no wait", c)
		}
	}
	bar(l, after(20), "east")
	if c := l.Rank(after(20), Prompt{Tokens: 100}, nil)[2]; c.Member != "east" {
		t.Errorf(`%+v, want Member "east"`, c)
	}
}

func TestSelection_SilentMemberIsBarredOnceThenOwnRequestsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := three(t, nil)
		slow := idle(0)
		slow.Interval = 5 * time.Second
		l.Report(time.Now(), "west", slow)
		for began := time.Now(); time.Since(began) < 40*time.Second; time.Sleep(100 * time.Millisecond) {
			east := idle(60)
			l.Report(time.Now(), "east", east)
			if time.Since(began) < 20*time.Second {
				l.Report(time.Now(), "north", east)
			}
			for _, c := range l.Rank(time.Now(), Prompt{Tokens: 10}, nil) {
				passed := time.Since(began)
				barred, own := false, false
				switch c.Member {
				case "west":
					barred, own = passed >= 15*time.Second && passed < 25*time.Second, passed >= 15*time.Second
				case "north": // the last report of north was at 19.9 s
					barred, own = passed >= 20500*time.Millisecond && passed < 30500*time.Millisecond,
						passed >= 20500*time.Millisecond
				}
				if (c.Barred == BarredSilent) != barred || (c.Basis == Own) != own {
					t.Fatalf("after %s: got %+v, want silent %t, by own requests %t", passed, c, barred, own)
				}
			}
		}
		l.Report(time.Now(), "west", slow)
		if c := l.Rank(time.Now(), Prompt{Tokens: 10}, nil)[1]; c.Member != "west" || c.Basis != Reported {
			t.Errorf(`%+v, want Member "west" and Basis %v`, c, Reported)
		}
	})
}

func TestSelection_MemberWithoutServersServesLast(t *testing.T) {
	l := three(t, nil)
	r := idle(0)
	r.Servers = 0
	l.Report(start, "east", r)
	if ranked := l.Rank(start, Prompt{Tokens: 10}, nil); ranked[2].Member != "east" || ranked[2].Barred != BarredEmpty {
		t.Errorf("got %+v, want east last, barred as empty", ranked)
	}
}

// The page of an external picker shows that its cluster has no server. A later report of the
// cluster overrides the page.
func TestSelection_MemberThatIsKnownToBeEmptyServesLast(t *testing.T) {
	l := three(t, nil)
	l.SetMembers([]Member{{Name: "east", Empty: true}, {Name: "north"}, {Name: "west"}})
	if ranked := l.Rank(start, Prompt{Tokens: 10}, nil); ranked[2].Member != "east" || ranked[2].Barred != BarredEmpty {
		t.Errorf("got %+v, want east last, barred as empty", ranked)
	}
	l.Report(start, "east", idle(0))
	for _, c := range l.Rank(start, Prompt{Tokens: 10}, nil) {
		if c.Barred != "" {
			t.Errorf("got %+v, want it not barred", c)
		}
	}
}

func TestSelection_AbsurdReportDoesNotBreakTheChoice(t *testing.T) {
	for _, r := range []Report{
		{Least: math.NaN(), Rate: math.NaN(), Servers: -1, Interval: -1, Capacity: -1},
		{Least: math.Inf(1), Rate: math.Inf(1), Servers: math.MaxInt, Interval: math.MaxInt64, Counted: math.MaxUint64,
			Epoch: math.MaxUint64},
		{Least: math.Inf(-1), Rate: math.SmallestNonzeroFloat64, Blocks: make([]uint64, 10_000)},
	} {
		l := three(t, nil)
		l.Report(start, "west", r)
		l.Report(start, "unknown", r)
		for _, c := range l.Rank(start, Prompt{Tokens: math.MaxInt, Chain: chain(1, 500)}, nil) {
			if math.IsNaN(c.Cost) || math.IsInf(c.Cost, 0) || c.Cost < 0 {
				t.Errorf("%+v: got %+v, want a finite cost of at least 0", r, c)
			}
		}
		if got := l.Standings(start)[2].Blocks; got > MaxReportBlocks {
			t.Errorf("%d blocks, want at most %d", got, MaxReportBlocks)
		}
	}
}

func TestSelection_MemoryIsBounded(t *testing.T) {
	l := three(t, func(c *Config) { c.Blocks = 3000 })
	for i := range 5000 {
		ranked := l.Rank(start, Prompt{Tokens: 512, Chain: chain(uint64(i), 3)}, nil)
		l.Begin(start, ranked[i%3], Prompt{Tokens: 512, Chain: chain(uint64(i), 3)})
	}
	for _, s := range l.Standings(start) {
		if s.Blocks > 1000 || l.find(s.Name).books.pending > maxUnreported {
			t.Errorf("%+v, want Blocks at most 1000 and Unreported at most %v", s, maxUnreported)
		}
	}
	many := make([]Member, 1000)
	for i := range many {
		many[i].Name = fmt.Sprintf("member-%03d", i)
	}
	l.SetMembers(many)
	if got := l.Rank(start, Prompt{}, nil); len(got) != MaxMembers {
		t.Errorf("%d members, want %d", len(got), MaxMembers)
	}
}

func TestSelection_PickAllocatesNothing(t *testing.T) {
	l := three(t, func(c *Config) { c.Blocks = 3000 })
	var out []Choice
	i := uint64(0)
	prompts := make([]Prompt, 64)
	for i := range prompts {
		prompts[i] = Prompt{Tokens: 20_000, Chain: chain(uint64(i), 39)}
	}
	pick := func() {
		i++
		p := prompts[i%64]
		out = l.Rank(start, p, out[:0])
		lease := l.Begin(start, out[0], p)
		lease.FirstByte()
		lease.End()
	}
	for range 10_000 {
		pick()
	}
	if got := testing.AllocsPerRun(1000, pick); got != 0 {
		t.Errorf("%g allocations, want 0", got)
	}
}

func TestSelection_ConcurrentPicksAndReportsAgree(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	l := three(t, func(c *Config) { c.Random = random.Uint64 }) // Random is called with the lock held
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 500 {
				now := after(float64(i) / 100)
				p := Prompt{Tokens: 5120, Chain: chain(uint64(i%20), 10)}
				ranked := l.Rank(now, p, nil)
				lease := l.Begin(now, ranked[0], p)
				if g == 0 {
					l.Report(now, ranked[1].Member, idle(float64(i%7)))
					l.SetMembers([]Member{{Name: "east"}, {Name: "north", RoundTrip: time.Duration(i)}, {Name: "west"}})
				}
				lease.FirstByte()
				lease.End()
			}
		})
	}
	all.Wait()
	for _, s := range l.Standings(after(5)) {
		if s.InFlight != 0 {
			t.Errorf("%+v, want InFlight 0", s)
		}
	}
}

func BenchmarkSelection_Pick(b *testing.B) {
	l := three(b, nil)
	var out []Choice
	p := Prompt{Tokens: 20_000, Chain: chain(1, 39)}
	b.ReportAllocs()
	for b.Loop() {
		out = l.Rank(start, p, out[:0])
		lease := l.Begin(start, out[0], p)
		lease.End()
	}
}
