package learned

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/multicluster/channel"
)

// wire carries what one Keeper tells to another one, at once.
type wire struct {
	t    *testing.T
	to   *Keeper
	all  map[string]channel.Fact // what a process that asks is told
	said int
}

func (w *wire) Tell(facts ...channel.Fact) {
	for _, f := range facts {
		w.all[f.Name] = f
	}
	w.said += len(facts)
}

func (w *wire) Withdraw(names ...string) {
	for _, name := range names {
		delete(w.all, name)
	}
}

func (w *wire) Heard(ctx context.Context) error {
	w.hear(ctx, false)
	return nil
}

// hear has the other Keeper hear everything.
func (w *wire) hear(ctx context.Context, all bool) {
	n := channel.News{Peer: "peer", All: all}
	for _, f := range w.all {
		n.Facts = append(n.Facts, f)
	}
	if err := w.to.Hear(ctx, n); err != nil {
		w.t.Error(err)
	}
}

// two makes two processes that tell each other what they learn.
func two(t *testing.T) (stores [2]*store.Store, keepers [2]*Keeper, wires [2]*wire, now *time.Time) {
	at := time.Unix(1000, 0)
	for i := range keepers {
		s, err := store.New()
		if err != nil {
			t.Fatal(err)
		}
		stores[i] = s
		keepers[i] = New(Config{Store: s, Delivery: eager{}, For: time.Minute, Now: func() time.Time { return at }})
	}
	for i := range keepers {
		wires[i] = &wire{t: t, to: keepers[1-i], all: map[string]channel.Fact{}}
		keepers[i].Share(wires[i])
	}
	return stores, keepers, wires, &at
}

func TestAnEnvoyFindsItsEndpointsAtWhicheverProcessItComesBackTo(t *testing.T) {
	stores, keepers, wires, _ := two(t)
	if err := keepers[0].Learn(t.Context(), "ns/chat@east", []netip.AddrPort{pod1, pod2}); err != nil {
		t.Fatal(err)
	}
	want := []string{pod1.String(), pod2.String()}
	if got := stored(stores[1]); !slices.Equal(got, want) {
		t.Fatalf("the other process has %v", got)
	}
	// The first one starts again with nothing, and asks the second one.
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	again := New(Config{Store: s, Delivery: eager{}, For: time.Minute, Now: keepers[0].cfg.Now})
	wires[1].to = again
	wires[1].hear(t.Context(), true)
	if got := stored(s); !slices.Equal(got, want) {
		t.Errorf("after its restart the first process has %v", got)
	}
}

func TestAnEndpointStaysEverywhereAsLongAsOneProcessIsToldOfIt(t *testing.T) {
	stores, keepers, wires, now := two(t)
	learn := func() {
		t.Helper()
		if err := keepers[0].Learn(t.Context(), "ns/chat@east", []netip.AddrPort{pod1}); err != nil {
			t.Fatal(err)
		}
		wires[0].hear(t.Context(), false)
		wires[1].hear(t.Context(), false)
	}
	learn()
	for range 5 {
		*now = now.Add(40 * time.Second)
		learn()
		for _, k := range keepers {
			if err := k.forget(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := stored(stores[1]); len(got) != 1 {
		t.Fatalf("the other process has %v", got)
	}
	// What processes tell each other keeps nothing alive.
	for range 20 {
		*now = now.Add(5 * time.Second)
		for i, k := range keepers {
			if err := k.forget(); err != nil {
				t.Fatal(err)
			}
			for name, f := range wires[i].all { // as a Topic counts it down
				if f.TTL -= 5 * time.Second; f.TTL <= 0 {
					delete(wires[i].all, name)
					continue
				}
				wires[i].all[name] = f
			}
			wires[i].hear(t.Context(), true)
		}
	}
	for i, s := range stores {
		if got := stored(s); got != nil {
			t.Errorf("process %d still has %v", i, got)
		}
	}
	if said := wires[0].said + wires[1].said; said > 12 {
		t.Errorf("an address that was named 6 times was told %d times: they talk about nothing else", said)
	}
}

func TestAnAddressThatAnotherProcessToldIsAnsweredOnlyWhenEnvoyHasItHere(t *testing.T) {
	s, p, k, _ := setUp(t)
	heard := make(chan error, 1)
	fact := channel.Fact{Name: factName("ns/chat@east", pod1), TTL: time.Minute}
	go func() { heard <- k.Hear(t.Context(), channel.News{Peer: "b", Facts: []channel.Fact{fact}}) }()
	<-p.asked
	select {
	case err := <-heard:
		t.Fatalf("acknowledged before Envoy had it: %v", err)
	default:
	}
	p.through <- 1
	if err := <-heard; err != nil || !slices.Equal(stored(s), []string{pod1.String()}) {
		t.Fatalf("stored %v: %v", stored(s), err)
	}
	// The Envoys of the other process may not have it yet: so a pick here is held until they do.
	done := make(chan error, 1)
	go func() { done <- k.Learn(t.Context(), "ns/chat@east", []netip.AddrPort{pod1}) }()
	<-p.asked
	p.through <- 1
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestNonsenseFromAnotherProcessIsAnErrorAndTheRestCounts(t *testing.T) {
	s, p, k, _ := setUp(t)
	go func() {
		<-p.asked
		p.through <- 1
	}()
	err := k.Hear(t.Context(), channel.News{Facts: []channel.Fact{
		{Name: "what"}, {Name: factName("ns/local", pod1)}, {Name: factName("ns/chat@east", pod2), TTL: time.Minute},
	}})
	if err == nil || !slices.Equal(stored(s), []string{pod2.String()}) {
		t.Errorf("stored %v: %v", stored(s), err)
	}
}
