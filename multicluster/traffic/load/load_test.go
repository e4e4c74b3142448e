package load

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/schedule"
)

var (
	pool   = objectid.Pool{Namespace: "default", Name: "chat"}
	target = objectid.Target{Pool: pool}               // as the exporter's picker names it
	whole  = objectid.Target{Pool: pool, Import: true} // as an importer's picker names it
)

// link plays the federation: publications of one cluster arrive at the other at once.
type link struct {
	member string // this cluster's name at the other end
	self   string

	mu     sync.Mutex
	wanted []objectid.Member // pools whose load this cluster requests
	other  *link
	sink   *Loads // receives the loads that the other end publishes
	sent   []federation.Load
}

func (k *link) Want(list []objectid.Member) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wanted = list
}

func (k *link) Wanted() (out []objectid.Member) {
	k.other.mu.Lock()
	defer k.other.mu.Unlock()
	for _, m := range k.other.wanted {
		if m.Member == k.self {
			out = append(out, objectid.Member{Member: k.member, Pool: m.Pool})
		}
	}
	return out
}

func (k *link) PublishLoad(to objectid.Member, load federation.Load) error {
	k.mu.Lock()
	k.sent = append(k.sent, load)
	k.mu.Unlock()
	k.sink.Receive(objectid.Member{Member: k.self, Pool: to.Pool}, load)
	return nil
}

func (k *link) RoundTrip(string) time.Duration { return 20 * time.Millisecond }

// reports returns the loads that this end has published.
func (k *link) reports() []federation.Load {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.sent)
}

// pair has the Loads of an importer, "here", and of an exporter, "east". The pool of east reports
// wait.
type pair struct {
	here, east *Loads
	from       *link // the link of the exporter
	mu         sync.Mutex
	wait       schedule.Wait
}

func newPair(t *testing.T) *pair {
	p := &pair{wait: schedule.Wait{Least: 0.5, Servers: 4, Rate: 2000}}
	to := &link{member: "east", self: "here"}
	p.from = &link{member: "here", self: "east", other: to}
	to.other = p.from
	loads := func(name string, to *link, waiting func(objectid.Pool) (schedule.Wait, int, bool)) *Loads {
		return New(Config{Waiting: waiting, Federation: func() Federation { return to },
			Cluster: func() string { return name }, Log: slog.New(slog.DiscardHandler)})
	}
	p.here = loads("here", to, func(objectid.Pool) (schedule.Wait, int, bool) { return schedule.Wait{}, 0, false })
	p.east = loads("east", p.from, func(name objectid.Pool) (schedule.Wait, int, bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.wait, 1000, name == pool
	})
	p.from.sink, to.sink = p.here, p.east
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, l := range []*Loads{p.here, p.east} {
		all.Go(func() { _ = l.Run(ctx) }) // ends with the context
	}
	t.Cleanup(func() { stop(); all.Wait() })
	return p
}

func (p *pair) setLeast(seconds float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wait.Least = seconds
}

func clusters() *picker.Clusters {
	return &picker.Clusters{
		Margin: time.Second, List: []picker.Cluster{
			{Name: "east", Hop: "to-east"}, {Name: "west", Hop: "to-west", Servers: 4},
		},
	}
}

// costs returns the cost of a request at each cluster now.
func (p *pair) costs(t *testing.T, prompt picker.ClusterPrompt) map[string]picker.ClusterCost {
	t.Helper()
	ranked, charge := p.here.Choose(whole, prompt, false, nil)
	if charge != nil || len(ranked) != 2 {
		t.Fatalf("%d clusters are ranked, with a charge: %t, want 2", len(ranked), charge != nil)
	}
	out := map[string]picker.ClusterCost{}
	for _, c := range ranked {
		out[c.Cluster] = c
	}
	return out
}

func TestLeastLoad_ClusterIsJudgedByItsReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.here.SetClusters(whole, clusters())
		chain := []uint64{1, 2, 3}
		time.Sleep(2*interval + time.Millisecond)
		p.east.Sent(picker.Sent{Pool: target, Chain: chain}) // sent by a gateway in east
		time.Sleep(interval)
		got := p.costs(t, picker.ClusterPrompt{Tokens: 300, Chain: chain})
		if east := got["east"]; east.Basis != "report" || east.Wait != 0.5 || east.RoundTrip != 0.02 ||
			east.Cached == 0 {
			t.Errorf("east: got %+v, want a report of 0.5 s waiting, 0.02 s of round trip, and some cached", east)
		}
		if west := got["west"]; west.Basis != "own requests" || west.Wait != 0 || west.Cached != 0 {
			t.Errorf(`west: %+v, want Basis "own requests", Wait 0, Cached 0`, west)
		}

		// This process's request counts until a report of the other cluster counts it.
		p.setLeast(0)
		time.Sleep(interval)
		_, charge := p.here.Choose(whole, picker.ClusterPrompt{Tokens: 8000, Chain: chain}, true, nil)
		if charge == nil {
			t.Fatal("the request is not charged")
		}
		// Four servers, each with 2,000 tokens a second, read about 8,000 tokens.
		if got := p.costs(t, picker.ClusterPrompt{})["east"].Wait; got < 0.9 {
			t.Errorf("after a request of 8,000 tokens the wait is %.3f s, want at least 0.9", got)
		}
		p.east.Sent(picker.Sent{Pool: target, Sender: p.here.Sender()})
		time.Sleep(interval)
		if got := p.costs(t, picker.ClusterPrompt{})["east"].Wait; got != 0 {
			t.Errorf("once the cluster counts the request, the wait is %.3f s, want 0", got)
		}
		charge.End()
	})
}

func TestLeastLoad_PoolThatRestsIsReportedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.here.SetClusters(whole, clusters())
		time.Sleep(time.Second + time.Millisecond) // waits until after the next report
		before := len(p.from.reports())
		time.Sleep(20 * time.Second)
		if n := len(p.from.reports()) - before; n < 3 || n > 5 {
			t.Errorf("%d reports in 20 s without a change, want one in 5 s", n)
		}
		if got := p.costs(t, picker.ClusterPrompt{})["east"]; got.Basis != "report" || got.Barred != "" {
			t.Errorf("an idle pool is judged by %s, barred: %q, want by its report, and not barred", got.Basis,
				got.Barred)
		}
		p.setLeast(3)
		time.Sleep(interval)
		if got := p.costs(t, picker.ClusterPrompt{})["east"].Wait; got != 3 {
			t.Errorf("the wait is %.3f s at the first interval after a change, want 3 s", got)
		}
		p.here.SetClusters(whole, nil)
		time.Sleep(2 * interval)
		before = len(p.from.reports())
		time.Sleep(20 * time.Second)
		if n := len(p.from.reports()) - before; n != 0 {
			t.Errorf("%d reports of a pool that no member asks for, want 0", n)
		}
	})
}

func TestLeastLoad_ProcessOutsideClusterSetsSeldomWakes(t *testing.T) {
	var set Federation
	l := New(Config{Federation: func() Federation { return set }, Log: slog.New(slog.DiscardHandler)})
	expect := func(want time.Duration, when string) {
		t.Helper()
		if got := l.pause(); got != want {
			t.Errorf("%s: it looks every %s, want %s", when, got, want)
		}
	}
	expect(apart, "without a cluster set")
	l.SetClusters(whole, clusters())
	expect(interval, "with an import")
	l.SetClusters(whole, nil)
	expect(apart, "after the import")
	set = &link{}
	expect(interval, "in a cluster set")
}

func TestLeastLoad_DeclinedClusterComesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.setLeast(0)
		p.here.SetClusters(whole, clusters())
		first := func() string {
			ranked, _ := p.here.Choose(whole, picker.ClusterPrompt{}, false, nil)
			return ranked[0].Cluster
		}
		ranked, charge := p.here.Choose(whole, picker.ClusterPrompt{}, true, nil)
		charge.Declined()
		charge.End()
		for range 20 {
			if got := first(); got == ranked[0].Cluster {
				t.Fatalf("%s declined a request and is first again, want another one", got)
			}
		}
		time.Sleep(11 * time.Second)
		seen := map[string]bool{}
		for range 100 {
			seen[first()] = true
		}
		if !seen[ranked[0].Cluster] {
			t.Errorf("%s is not first again after 10 s, want it", ranked[0].Cluster)
		}
	})
}

// A member receives only the counts of its own requests. Clients may invent senders, so the memory
// for counts of senders is bounded.
func TestLeastLoad_CountsAreTheMembersOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.here.SetClusters(whole, clusters())
		time.Sleep(2*interval + time.Millisecond)
		p.east.Sent(picker.Sent{Pool: target, Sender: "here/a"})
		p.east.Sent(picker.Sent{Pool: target, Sender: "hereafter/b"})
		p.east.Sent(picker.Sent{Pool: target, Sender: "mars/c"})
		time.Sleep(interval)
		reports := p.from.reports()
		if d := cmp.Diff(map[string]uint64{"here/a": 1}, reports[len(reports)-1].Counted); d != "" {
			t.Errorf("counted (-want +got):\n%s", d)
		}
		for i := range 10 * maxSenders {
			p.east.Sent(picker.Sent{Pool: target, Sender: "mars/" + string(rune('a'+i%26)) + time.Duration(i).String()})
		}
		p.east.pools.mu.Lock()
		defer p.east.pools.mu.Unlock()
		if n := len(p.east.pools.byPool[pool].senders); n > maxSenders {
			t.Errorf("%d senders are kept, want at most %d", n, maxSenders)
		}
	})
}

// With Latency, no load is requested or reported. The choice depends on response times.
func TestLatency_AnswersDecideAndNoReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		policy := clusters()
		policy.Latency, policy.List[1].Local = true, true // west is this cluster
		p.here.SetClusters(whole, policy)
		time.Sleep(20 * time.Second)
		if n := len(p.from.reports()); n != 0 {
			t.Errorf("%d reports, want 0", n)
		}
		answer := func(after time.Duration) (by string) {
			ranked, charge := p.here.Choose(whole, picker.ClusterPrompt{}, true, nil)
			charge.FirstByte(after)
			charge.End()
			return ranked[0].Cluster
		}
		for range 3 { // the margin favors west, until it is slower than a trial of east
			if got := answer(2 * time.Second); got != "west" {
				break
			}
		}
		if got := p.costs(t, picker.ClusterPrompt{})["east"]; got.Basis != "its answers" || got.RoundTrip != 0.02 ||
			got.Wait != 1.98 || got.Margin != 1 {
			t.Errorf(`%+v, want Basis "its answers", RoundTrip 0.02, Wait 1.98, Margin 1`, got)
		}
		if got := answer(time.Second); got != "west" {
			t.Errorf(`%s is chosen, which costs as much and the margin, want "west"`, got)
		}
		// A change of the policy discards all measurements.
		p.here.SetClusters(whole, clusters())
		if got := p.costs(t, picker.ClusterPrompt{})["east"]; got.Basis != "own requests" || got.Wait != 0 {
			t.Errorf(`%+v, want Basis "own requests" and Wait 0`, got)
		}
	})
}
