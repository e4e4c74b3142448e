package channel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// process is a running Channel with a gRPC server, and the items that it received.
type process struct {
	*Channel
	t       *testing.T
	address string
	topic   *Topic
	stop    func()

	mu       sync.Mutex
	received map[string]string         // value and peer of each item, by key
	hold     func(ctx context.Context) // if set, called for each update
}

// start runs a process at an address ("127.0.0.1:0": any) until it is stopped, or the test ends.
func start(t *testing.T, address string, peers ...string) *process {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, address: l.Addr().String(), received: map[string]string{}}
	// AckTimeout is long, so that a slow machine cannot exceed it.
	p.Channel = New(Config{Peers: peers, AckTimeout: time.Minute, GracePeriod: 100 * time.Millisecond})
	p.topic = p.Topic("things")
	p.topic.Subscribe(p.receive)
	s := grpc.NewServer()
	p.Register(s)
	go func() { _ = s.Serve(l) }()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.Run(ctx)
	}()
	p.stop = sync.OnceFunc(func() {
		cancel()
		s.Stop()
		<-done
	})
	t.Cleanup(p.stop)
	return p
}

func (p *process) receive(ctx context.Context, u Update) error {
	p.mu.Lock()
	if u.Snapshot || u.Disconnected {
		maps.DeleteFunc(p.received, func(_, from string) bool { return strings.HasSuffix(from, u.Peer) })
	}
	for _, it := range u.Items {
		p.received[it.Key] = fmt.Sprintf("%s for %t from %s", it.Value, it.TTL > 0, u.Peer)
	}
	for _, key := range u.Retracted {
		delete(p.received, key)
	}
	hold := p.hold
	p.mu.Unlock()
	if hold != nil {
		hold(ctx)
	}
	return nil
}

// wait polls until the process has received exactly these items.
func (p *process) wait(what string, want map[string]string) {
	p.t.Helper()
	var got map[string]string
	eventually(p.t, what, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		got = maps.Clone(p.received)
		return maps.Equal(got, want)
	}, func() string { return fmt.Sprintf("received %v, want %v", got, want) })
}

func eventually(t *testing.T, what string, ok func() bool, got func() string) {
	t.Helper()
	poll.NoError(t, what, poll.Limit, func() error {
		if ok() {
			return nil
		}
		return errors.New(got())
	})
}

func TestPeers_SyncedBeforeServing(t *testing.T) {
	a := start(t, "127.0.0.1:0")
	a.topic.Publish(Item{Key: "x", Value: []byte("1")}, Item{Key: "y", TTL: time.Hour})
	b := start(t, "127.0.0.1:0", a.address, "127.0.0.1:1") // nothing listens at the second address
	if err := b.Synced(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"x": "1 for false from " + a.address, "y": " for true from " + a.address}
	if !maps.Equal(b.received, want) {
		t.Errorf("received %v, want %v", b.received, want)
	}
	if b.Isolated() || !a.Isolated() {
		t.Error("a process that subscribes to another must not be isolated, one without peers must be")
	}
}

func TestPeers_AcknowledgedItemsAreInEffect(t *testing.T) {
	a := start(t, "127.0.0.1:0")
	b := start(t, "127.0.0.1:0", a.address)
	if err := b.Synced(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		name := fmt.Sprint(i)
		a.topic.Publish(Item{Key: name})
		if err := a.topic.Acknowledged(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.mu.Lock()
		_, ok := b.received[name]
		b.mu.Unlock()
		if !ok {
			t.Fatalf("item %d is not in effect yet, want it", i)
		}
	}
	a.topic.Retract(slices.Sorted(maps.Keys(b.received))...)
	b.wait("everything is retracted", map[string]string{})
}

func TestPeers_FrozenPeerIsNotWaitedForForever(t *testing.T) {
	a := start(t, "127.0.0.1:0")
	a.cfg.AckTimeout = 50 * time.Millisecond
	b := start(t, "127.0.0.1:0", a.address)
	if err := b.Synced(t.Context()); err != nil {
		t.Fatal(err)
	}
	frozen := make(chan struct{})
	b.mu.Lock()
	b.hold = func(context.Context) { <-frozen }
	b.mu.Unlock()
	a.topic.Publish(Item{Key: "x"})
	if err := a.topic.Acknowledged(t.Context()); err != nil { // must return before AckTimeout
		t.Fatal(err)
	}
	a.topic.Publish(Item{Key: "y"})
	close(frozen)
	want := map[string]string{"x": " for false from " + a.address, "y": " for false from " + a.address}
	b.wait("what was published meanwhile arrives once the peer resumes", want)
}

func TestPeers_AcknowledgedEndsWithContext(t *testing.T) {
	a := start(t, "127.0.0.1:0")
	b := start(t, "127.0.0.1:0", a.address)
	if err := b.Synced(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	b.mu.Lock()
	b.hold = func(ctx context.Context) {
		cancel()
		<-ctx.Done()
	}
	b.mu.Unlock()
	a.topic.Publish(Item{Key: "x"})
	if err := a.topic.Acknowledged(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestPeers_DisconnectIsReportedAndReturnRestores(t *testing.T) {
	a := start(t, "127.0.0.1:0")
	b := start(t, "127.0.0.1:0", a.address)
	a.topic.Publish(Item{Key: "x"})
	b.wait("x", map[string]string{"x": " for false from " + a.address})
	b.cfg.GracePeriod = time.Hour
	a.stop()
	b.wait("nothing after the disconnect", map[string]string{})
	if b.Isolated() {
		t.Error("a process that restarts is given up within the grace period")
	}
	b.cfg.GracePeriod = time.Millisecond
	eventually(t, "b is isolated", b.Isolated, func() string { return "" })
	again := start(t, a.address)
	again.topic.Publish(Item{Key: "y"})
	b.wait("what the peer publishes now", map[string]string{"y": " for false from " + a.address})
}

func TestPeers_OneListForAllAndItMayChange(t *testing.T) {
	a, b := start(t, "127.0.0.1:0"), start(t, "127.0.0.1:0")
	a.topic.Publish(Item{Key: "x"})
	b.topic.Publish(Item{Key: "y"})
	for _, p := range []*process{a, b} {
		p.SetPeers(a.address, b.address)
		if err := p.Synced(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	a.wait("only the peer's item", map[string]string{"y": " for false from " + b.address})
	b.wait("only the peer's item", map[string]string{"x": " for false from " + a.address})
	a.SetPeers(a.address)
	a.wait("nothing of a former peer", map[string]string{})
	b.topic.Publish(Item{Key: "z"})
	b.cfg.AckTimeout = 50 * time.Millisecond // a is still a peer of b
	if err := b.topic.Acknowledged(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.wait("still nothing", map[string]string{})
	eventually(t, "a process that is its own only peer is isolated", a.Isolated, func() string { return "" })
}

// Two processes are peers, but only one has subscribed to the other. Items that the subscriber
// publishes in this state must not count as acknowledged.
func TestPeers_ConnectedPeerThatSubscribesLateIsWaitedFor(t *testing.T) {
	a := start(t, "127.0.0.1:0")
	b := start(t, "127.0.0.1:0", a.address)
	if err := b.Synced(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.topic.Publish(Item{Key: "x"})
	done := make(chan error, 1)
	go func() { done <- b.topic.Acknowledged(t.Context()) }()
	a.SetPeers(b.address)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.received) != 1 {
		t.Error("acknowledged without being in effect")
	}
}

// Topic.Snapshot is called once for each subscriber, and its items are in the first response.
func TestPeers_SnapshotOnceForEachSubscriber(t *testing.T) {
	a := start(t, "127.0.0.1:0")
	made := make(chan struct{}, 10)
	a.topic.Snapshot(func() []Item {
		a.topic.Publish(Item{Key: "published", Value: []byte("2")})
		made <- struct{}{}
		return []Item{{Key: "all", Value: []byte("1")}, {Key: "published", Value: []byte("old")}}
	})
	if a.topic.Subscribed() {
		t.Error("subscribed before another process is there")
	}
	b := start(t, "127.0.0.1:0", a.address)
	if err := b.Synced(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"all": "1 for false from " + a.address, "published": "2 for false from " + a.address}
	b.wait("the snapshot", want)
	a.topic.Publish(Item{Key: "event", Value: []byte("3")})
	want["event"] = "3 for false from " + a.address
	b.wait("the event, and nothing of the snapshot retracted", want)
	if len(made) != 1 || !a.topic.Subscribed() || b.topic.Subscribed() {
		t.Errorf("%d snapshots, subscribed: %t and %t, want 1, true and false", len(made), a.topic.Subscribed(),
			b.topic.Subscribed())
	}
	b.stop()
	eventually(t, "the subscriber is gone", func() bool { return !a.topic.Subscribed() }, func() string { return "" })
}

// A subscriber receives only visible items, and no message about changes of hidden items. The
// process's own address is in its list of peers, too.
func TestTopic_HiddenItemsAreNotSent(t *testing.T) {
	a := start(t, "127.0.0.1:0")
	var mu sync.Mutex
	hidden := true
	a.Channel.mu.Lock() // locked, because the channel already runs
	a.topic.Visible(func(_, key string) bool {
		mu.Lock()
		defer mu.Unlock()
		return key != "secret" || !hidden
	})
	a.Channel.mu.Unlock()
	b := start(t, "127.0.0.1:0", a.address)
	var updates atomic.Int64
	b.mu.Lock()
	b.hold = func(context.Context) { updates.Add(1) }
	b.mu.Unlock()
	a.topic.Publish(Item{Key: "open", Value: []byte("1")}, Item{Key: "secret", Value: []byte("1")})
	b.wait("the visible item", map[string]string{"open": "1 for false from " + a.address})
	before := updates.Load()
	a.topic.Publish(Item{Key: "secret", Value: []byte("2")})
	if err := a.topic.Acknowledged(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := updates.Load() - before; n != 0 {
		t.Errorf("a hidden change is sent as %d updates, want 0", n)
	}
	mu.Lock()
	hidden = false
	mu.Unlock()
	a.topic.Publish(Item{Key: "secret", Value: []byte("3")})
	b.wait("both",
		map[string]string{"open": "1 for false from " + a.address, "secret": "3 for false from " + a.address})
	mu.Lock()
	hidden = true
	mu.Unlock()
	a.topic.Publish(Item{Key: "secret", Value: []byte("4")})
	b.wait("the visible one again", map[string]string{"open": "1 for false from " + a.address})
}

func TestPeers_OwnSubscriptionGetsNoSnapshot(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	a := start(t, address, address)
	a.topic.Snapshot(func() []Item {
		t.Error("a snapshot for the process itself")
		return nil
	})
	eventually(t, "the address turns out to be the process's own", func() bool {
		a.Channel.mu.Lock()
		defer a.Channel.mu.Unlock()
		return a.peers[address].self
	}, func() string { return "" })
	if a.topic.Subscribed() {
		t.Error("the process counts as its own subscriber")
	}
}
