package learned

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
)

// proxies is a Delivery whose Envoys acknowledge nothing until the test permits it.
type proxies struct{ asked, through chan uint64 }

func (p *proxies) Delivered(ctx context.Context, rev uint64, _ objectid.Target) error {
	p.asked <- rev
	select {
	case <-p.through:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *proxies) Isolated() bool { return false }

func (p *proxies) Reachable(context.Context) (bool, error) { return false, nil }

// eager is a Delivery whose Envoys acknowledge at once.
type eager struct{ *proxies }

func (eager) Delivered(context.Context, uint64, objectid.Target) error { return nil }

var (
	chatEast = objectid.MustParseTarget("ns/chat@east")

	pod1 = netip.MustParseAddrPort("10.1.0.1:8000")
	pod2 = netip.MustParseAddrPort("10.1.0.2:8000")
)

func setUp(t *testing.T) (*store.Store, *proxies, *Keeper, *time.Time) {
	s := store.New()
	p := &proxies{make(chan uint64, 1), make(chan uint64)}
	now := time.Unix(1000, 0)
	return s, p,
		New(Config{Store: s, Delivery: p, Object: object, For: time.Minute, Now: func() time.Time { return now }}), &now
}

func stored(s *store.Store) []string {
	l, ok := store.LearnedEndpoints.Get(s.View(), "ns/"+store.LearnedName("chat", "east"))
	if !ok {
		return nil
	}
	return l.Endpoints
}

func TestLearned_PickWaitsUntilEnvoyHasTheEndpoint(t *testing.T) {
	s, p, k, _ := setUp(t)
	done := make(chan error, 1)
	go func() { done <- k.Learn(t.Context(), chatEast, []netip.AddrPort{pod1}) }()
	if rev := <-p.asked; rev != 1 || !slices.Equal(stored(s), []string{"10.1.0.1:8000"}) {
		t.Errorf("revision %d has %v, want 1 and %v", rev, stored(s), []string{"10.1.0.1:8000"})
	}
	select {
	case err := <-done:
		t.Fatalf("answered %v before Envoy had it, want to wait", err)
	default:
	}
	p.through <- 1
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	// A second request for the same endpoint does not wait.
	if err := k.Learn(t.Context(), chatEast, []netip.AddrPort{pod1}); err != nil {
		t.Fatal(err)
	}
}

func TestLearned_PickWaitsAgainAfterATimeout(t *testing.T) {
	_, p, k, _ := setUp(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.Learn(ctx, chatEast, []netip.AddrPort{pod1}); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want %v", err, context.Canceled)
	}
	<-p.asked
	done := make(chan error, 1)
	go func() { done <- k.Learn(t.Context(), chatEast, []netip.AddrPort{pod1}) }()
	<-p.asked
	p.through <- 1
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestLearned_UnusedEndpointsExpire(t *testing.T) {
	s, p, k, now := setUp(t)
	go func() {
		for range p.asked {
			p.through <- 1
		}
	}()
	if err := k.Learn(t.Context(), chatEast, []netip.AddrPort{pod1, pod2}); err != nil {
		t.Fatal(err)
	}
	*now = now.Add(50 * time.Second)
	if err := k.Learn(t.Context(), chatEast, []netip.AddrPort{pod2}); err != nil {
		t.Fatal(err)
	}
	*now = now.Add(30 * time.Second)
	if err := k.expire(); err != nil {
		t.Fatal(err)
	}
	if got := stored(s); !slices.Equal(got, []string{pod2.String()}) {
		t.Errorf("stored %v, want the recently used %v alone", got, pod2)
	}
	*now = now.Add(2 * time.Minute)
	if err := k.expire(); err != nil {
		t.Fatal(err)
	}
	if got := stored(s); got != nil {
		t.Errorf("stored %v after all expired", got)
	}
}

func TestLearned_OnlyPoolsOfImports(t *testing.T) {
	_, _, k, _ := setUp(t)
	if err := k.Learn(t.Context(), objectid.MustParseTarget("ns/chat"), []netip.AddrPort{pod1}); err == nil {
		t.Error("a local pool's endpoints were learned from a picker")
	}
}

// object implements Config.Object: the only pool of these tests is chatEast.
func object(pool objectid.Target) (namespace, name string, ok bool) {
	return "ns", store.LearnedName("chat", "east"), pool == chatEast
}

// The number of a pool's learned addresses is bounded, because a picker of another cluster chooses
// them, and each becomes an endpoint in every Envoy.
func TestLearned_AddressesOfAPoolAreBounded(t *testing.T) {
	s := store.New()
	now := time.Unix(1000, 0)
	k := New(Config{Store: s, Delivery: eager{}, Object: object, Now: func() time.Time { return now }})
	addr := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 8000)
	}
	for i := 0; i < maxAddresses+64; i += 16 {
		var list []netip.AddrPort
		for j := range 16 {
			list = append(list, addr(i+j))
		}
		now = now.Add(time.Millisecond)
		if err := k.Learn(t.Context(), chatEast, list); err != nil {
			t.Fatal(err)
		}
	}
	got := stored(s)
	if len(got) != maxAddresses {
		t.Errorf("%d addresses are kept, want %d", len(got), maxAddresses)
	}
	if slices.Contains(got, addr(0).String()) || !slices.Contains(got, addr(64).String()) ||
		!slices.Contains(got, addr(maxAddresses+63).String()) {
		t.Error("addresses that were named longest ago must go first")
	}
}
