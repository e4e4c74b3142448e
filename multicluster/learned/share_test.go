package learned

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/multicluster/channel"
)

// wire delivers one Keeper's items to the other at once.
type wire struct {
	t         *testing.T
	to        *Keeper
	all       map[string]channel.Item // all published items, the snapshot for a new subscriber
	published int
}

func (w *wire) Subscribe(func(context.Context, channel.Update) error) {}

func (w *wire) Publish(items ...channel.Item) {
	for _, it := range items {
		w.all[it.Key] = it
	}
	w.published += len(items)
}

func (w *wire) Acknowledged(ctx context.Context) error {
	w.deliver(ctx, false)
	return nil
}

// deliver sends all items to the other Keeper.
func (w *wire) deliver(ctx context.Context, snapshot bool) {
	u := channel.Update{Peer: "peer", Snapshot: snapshot}
	for _, it := range w.all {
		u.Items = append(u.Items, it)
	}
	if err := w.to.receive(ctx, u); err != nil {
		w.t.Error(err)
	}
}

// two makes two Keepers that share addresses, each with its own store.
func two(t *testing.T) (stores [2]*store.Store, keepers [2]*Keeper, wires [2]*wire, now *time.Time) {
	at := time.Unix(1000, 0)
	for i := range keepers {
		s := store.New()
		stores[i] = s
		wires[i] = &wire{t: t, all: map[string]channel.Item{}}
		keepers[i] = New(Config{Store: s, Delivery: eager{}, Object: object, Peers: wires[i], For: time.Minute,
			Now: func() time.Time { return at }})
	}
	for i := range keepers {
		wires[i].to = keepers[1-i]
	}
	return stores, keepers, wires, &at
}

func TestLearned_EveryProcessHasWhatOneLearned(t *testing.T) {
	stores, keepers, wires, _ := two(t)
	if err := keepers[0].Learn(t.Context(), chatEast, []netip.AddrPort{pod1, pod2}); err != nil {
		t.Fatal(err)
	}
	want := []string{pod1.String(), pod2.String()}
	if got := stored(stores[1]); !slices.Equal(got, want) {
		t.Fatalf("the other process has %v, want %v", got, want)
	}
	// The first process restarts without addresses, and subscribes to the second.
	s := store.New()
	again := New(Config{Store: s, Delivery: eager{}, Object: object, For: time.Minute, Now: keepers[0].cfg.Now})
	wires[1].to = again
	wires[1].deliver(t.Context(), true)
	if got := stored(s); !slices.Equal(got, want) {
		t.Errorf("after its restart the first process has %v, want %v", got, want)
	}
}

func TestLearned_StaysEverywhereWhileOneProcessUsesIt(t *testing.T) {
	stores, keepers, wires, now := two(t)
	learn := func() {
		t.Helper()
		if err := keepers[0].Learn(t.Context(), chatEast, []netip.AddrPort{pod1}); err != nil {
			t.Fatal(err)
		}
		wires[0].deliver(t.Context(), false)
		wires[1].deliver(t.Context(), false)
	}
	learn()
	for range 5 {
		*now = now.Add(40 * time.Second)
		learn()
		for _, k := range keepers {
			if err := k.expire(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := stored(stores[1]); len(got) != 1 {
		t.Fatalf("the other process has %v, want 1 of them", got)
	}
	// Addresses expire although processes publish them to one another.
	for range 20 {
		*now = now.Add(5 * time.Second)
		for i, k := range keepers {
			if err := k.expire(); err != nil {
				t.Fatal(err)
			}
			for key, it := range wires[i].all { // decreases the time to live, as a Topic does
				if it.TTL -= 5 * time.Second; it.TTL <= 0 {
					delete(wires[i].all, key)
					continue
				}
				wires[i].all[key] = it
			}
			wires[i].deliver(t.Context(), true)
		}
	}
	for i, s := range stores {
		if got := stored(s); got != nil {
			t.Errorf("process %d still has %v", i, got)
		}
	}
	if n := wires[0].published + wires[1].published; n > 12 {
		t.Errorf("an address that was named 6 times was published %d times, want at most 12", n)
	}
}

func TestLearned_PeersAddressIsNotPickedBeforeEnvoyHasIt(t *testing.T) {
	s, p, k, _ := setUp(t)
	received := make(chan error, 1)
	item := channel.Item{Key: itemKey(chatEast, pod1), TTL: time.Minute}
	go func() { received <- k.receive(t.Context(), channel.Update{Peer: "b", Items: []channel.Item{item}}) }()
	<-p.asked
	select {
	case err := <-received:
		t.Fatalf("acknowledged %v before Envoy had it, want to wait", err)
	default:
	}
	p.through <- 1
	if err := <-received; err != nil || !slices.Equal(stored(s), []string{pod1.String()}) {
		t.Fatalf("stored %v: %v, want %v", stored(s), err, pod1)
	}
	// An Envoy of the other process may lack the address, so Learn in this process waits.
	done := make(chan error, 1)
	go func() { done <- k.Learn(t.Context(), chatEast, []netip.AddrPort{pod1}) }()
	<-p.asked
	p.through <- 1
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestLearned_InvalidItemLeavesTheOthers(t *testing.T) {
	s, p, k, _ := setUp(t)
	go func() {
		<-p.asked
		p.through <- 1
	}()
	err := k.receive(t.Context(), channel.Update{Items: []channel.Item{
		{Key: "what"}, {Key: itemKey(objectid.MustParseTarget("ns/local"), pod1)},
		{Key: itemKey(chatEast, pod2), TTL: time.Minute},
	}})
	if err == nil || !slices.Equal(stored(s), []string{pod2.String()}) {
		t.Errorf("stored %v: %v, want %v and an error", stored(s), err, pod2)
	}
}
