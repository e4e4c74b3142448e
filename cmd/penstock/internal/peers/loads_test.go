package peers

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/schedule"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

const limited = "10.0.0.1:80"

// startPickers starts processes, each with a picker for a pool with one endpoint, which takes limit
// requests.
func startPickers(t *testing.T, n int, limit int32) (pickers []*picker.Picker, loads []*Loads, stop []func()) {
	t.Helper()
	return startPools(t, n,
		picker.Pool{ID: objectid.MustParseTarget("ns/pool"), Strategy: "random", Full: schedule.Full{InFlight: limit},
			Endpoints: []endpoint.Spec{{Addr: netip.MustParseAddrPort(limited)}}})
}

func startPools(t *testing.T, n int, pool picker.Pool) (pickers []*picker.Picker, loads []*Loads, stop []func()) {
	t.Helper()
	listeners := make([]net.Listener, n)
	var addresses []string
	for i := range listeners {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[i], addresses = l, append(addresses, l.Addr().String())
	}
	for _, l := range listeners {
		p, share, end := startPicker(t, l, addresses, pool)
		pickers, loads, stop = append(pickers, p), append(loads, share), append(stop, end)
	}
	for _, l := range loads {
		poll.Until(t, "the processes are connected", func() bool { others, _ := l.Order(); return others == n-1 })
	}
	return pickers, loads, stop
}

type sharing struct {
	picks    *Picks
	sessions *Sessions
	pages    *Pages
}

func (s sharing) Sent(sent picker.Sent)          { s.picks.Add(sent) }
func (s sharing) Session(session picker.Session) { s.sessions.Add(session) }
func (s sharing) Page(addr netip.AddrPort, page uint64, r endpoint.Reading) {
	s.pages.Add(addr, page, r)
}

func startPicker(t *testing.T, l net.Listener, addresses []string, pool picker.Pool) (p *picker.Picker, share *Loads,
	end func()) {
	t.Helper()
	// The timeout is long, because a slow machine must not look like a frozen peer.
	c := channel.New(channel.Config{Peers: addresses, AckTimeout: time.Minute})
	share = NewLoads(c)
	shared := NewPicks(c, func() Caches { return p })
	pages := NewPages(c, func() PageReader { return p.Loads() })
	sessions := NewSessions(c, func() SessionKeeper { return p })
	p, err := picker.New(picker.Config{Peers: share, Settle: 2 * time.Second, Sharing: sharing{shared, sessions, pages},
		Chooser: &inOrder{clusters: map[objectid.Target]*picker.Clusters{}}})
	if err != nil {
		t.Fatal(err)
	}
	share.Publish(p)
	if err := p.SetPools([]picker.Pool{pool}); err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	c.Register(s)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Serve(l) })
	for _, run := range []func(context.Context) error{c.Run, share.Run, shared.Run, pages.Run, sessions.Run, p.Run} {
		running.Go(func() { _ = run(ctx) })
	}
	end = sync.OnceFunc(func() { cancel(); s.Stop(); running.Wait() })
	t.Cleanup(end)
	return p, share, end
}

// pick returns the lease of a pick; "" if the pool is full.
func pick(t *testing.T, p *picker.Picker) string {
	a := p.Pick(t.Context(), &extproc.Request{Pool: "ns/pool", Headers: &extproc.Message{}})
	if a.Lease.Number == 0 && a.Status != 429 {
		t.Errorf("a pick without a lease has status %d, want 429", a.Status)
	}
	return a.Lease.String()
}

// Clients of two Gateways send at once, and each Gateway's Envoy calls another process. A place may
// stay free in a round that begins before all processes know the end of the previous one.
func TestLimit_HoldsForConcurrentPicksOfSeveralProcesses(t *testing.T) {
	const limit = 5
	pickers, _, _ := startPickers(t, 3, limit)
	most := int64(0)
	for round := range 5 {
		var open atomic.Int64
		leases := make([][]string, len(pickers))
		var mu sync.Mutex
		var picks sync.WaitGroup
		for i := range 60 {
			picks.Go(func() {
				if lease := pick(t, pickers[i%3]); lease != "" {
					open.Add(1)
					mu.Lock()
					defer mu.Unlock()
					leases[i%3] = append(leases[i%3], lease)
				}
			})
		}
		picks.Wait()
		n := open.Load()
		if most = max(most, n); n > limit || n == 0 {
			t.Errorf("round %d: got %d requests in flight, want 1 to %d", round, n, limit)
		}
		for i, p := range pickers {
			for _, lease := range leases[i] {
				p.LogOwn(accesslog.Entry{Lease: lease, Served: limited, Status: 200})
			}
		}
	}
	if most != limit {
		t.Errorf("got at most %d requests in flight, want %d in one round", most, limit)
	}
}

func TestLimit_CountsOfPeerThatIsGoneEnd(t *testing.T) {
	pickers, loads, stop := startPickers(t, 2, 4)
	for range 4 {
		if pick(t, pickers[1]) == "" {
			t.Fatal("full too early")
		}
	}
	poll.Until(t, "the other process counts them", func() bool { return pick(t, pickers[0]) == "" })
	if !loads[0].Alive(pickers[1].Owner()) || loads[0].Alive("other") {
		t.Error("the peer is not alive, or another one is")
	}
	stop[1]()
	poll.Until(t, "they count no more", func() bool { return pick(t, pickers[0]) != "" })
	if others, first := loads[0].Order(); loads[0].Alive(pickers[1].Owner()) || others != 0 || !first {
		t.Error("the peer is alive still")
	}
}

func TestFrozen_LimitsForHeadersAreShared(t *testing.T) {
	pickers, loads, _ := startPickers(t, 2, 0)
	addr := netip.MustParseAddrPort(limited)
	leases := endpoint.NewLeases("test", time.Hour)
	snapshot := pickers[0].Loads().Snapshot(endpoint.Metrics{Off: true}, nil, []endpoint.Spec{{Addr: addr}})
	for range 110 {
		lease := leases.Open(&snapshot.Endpoints[0], endpoint.Holder{}, endpoint.Work{Stream: true}, 0, time.Now())
		lease.SetTag(endpoint.Tag{Tokens: 500})
		lease.Answered(500*time.Millisecond, time.Second)
		lease.Release()
		lease.Done()
	}
	limit := func(p *picker.Picker) time.Duration { return p.Loads().Find(addr).HeadersLimit(500) }
	poll.Until(t, "the other process has the limit",
		func() bool { return limit(pickers[1]) == limit(pickers[0]) && limit(pickers[0]) < 3*time.Second })
	if n := len(loads[1].peers.ByKey(headersKey + limited)); n != 1 {
		t.Errorf("%d processes have published, want 1", n)
	}
}

func TestFrozen_PublishedLimitsAreRead(t *testing.T) {
	want := &endpoint.HeaderLimits{First: true}
	want.Of[0], want.Of[3] = time.Second, 20*time.Second
	got, err := decodeLoad(encodeHeaders(want))
	if err != nil || got.kind != ofHeaders || *got.headers != *want {
		t.Errorf("got %+v, %v, want the headers %v", got, err, want)
	}
	for _, text := range []string{"h", "h1", "h1 -5", "h" + strings.Repeat("1 ", 21),
		"h" + strings.Repeat("1 ", 21) + "-1"} {
		if _, err := decodeLoad([]byte(text)); err == nil {
			t.Errorf("%q is read, want an error", text)
		}
	}
}
