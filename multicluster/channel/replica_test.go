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
	"testing"
	"time"

	"google.golang.org/grpc"
)

// process is a channel that serves, and what it has heard.
type process struct {
	*Channel
	t       *testing.T
	address string
	topic   *Topic
	stop    func()

	mu    sync.Mutex
	heard map[string]string         // fact -> body and peer
	hold  func(ctx context.Context) // called for each news
}

// start runs a process at an address ("127.0.0.1:0": any) until it is stopped, or the test ends.
func start(t *testing.T, address string, peers ...string) *process {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, address: l.Addr().String(), heard: map[string]string{}}
	p.Channel = New(Config{Peers: peers, Patience: time.Minute, Grace: 100 * time.Millisecond}) // what is slow here is the machine
	p.topic = p.Topic("things", p.hear)
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

func (p *process) hear(ctx context.Context, n News) error {
	p.mu.Lock()
	if n.All {
		maps.DeleteFunc(p.heard, func(_, from string) bool { return strings.HasSuffix(from, n.Peer) })
	}
	for _, f := range n.Facts {
		p.heard[f.Name] = fmt.Sprintf("%s for %t from %s", f.Body, f.TTL > 0, n.Peer)
	}
	for _, name := range n.Gone {
		delete(p.heard, name)
	}
	hold := p.hold
	p.mu.Unlock()
	if hold != nil {
		hold(ctx)
	}
	return nil
}

// wait polls until what was heard is as wanted.
func (p *process) wait(what string, want map[string]string) {
	p.t.Helper()
	var got map[string]string
	poll(p.t, what, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		got = maps.Clone(p.heard)
		return maps.Equal(got, want)
	}, func() string { return fmt.Sprintf("heard %v, want %v", got, want) })
}

func poll(t *testing.T, what string, ok func() bool, else_ func() string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s: %s", what, else_())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestAProcessThatStartsKnowsWhatTheOthersKnowBeforeItServes(t *testing.T) {
	a := start(t, "127.0.0.1:0")
	a.topic.Tell(Fact{Name: "x", Body: []byte("1")}, Fact{Name: "y", TTL: time.Hour})
	b := start(t, "127.0.0.1:0", a.address, "127.0.0.1:1") // nobody is at the second
	if err := b.Asked(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"x": "1 for false from " + a.address, "y": " for true from " + a.address}
	if !maps.Equal(b.heard, want) {
		t.Errorf("heard %v, want %v", b.heard, want)
	}
	if b.Alone() || !a.Alone() {
		t.Error("who reads another knows that it is there")
	}
}

func TestWhatIsToldIsInEffectElsewhereWhenHeardReturns(t *testing.T) {
	a := start(t, "127.0.0.1:0")
	b := start(t, "127.0.0.1:0", a.address)
	if err := b.Asked(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		name := fmt.Sprint(i)
		a.topic.Tell(Fact{Name: name})
		if err := a.topic.Heard(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.mu.Lock()
		_, ok := b.heard[name]
		b.mu.Unlock()
		if !ok {
			t.Fatalf("fact %d was not heard yet", i)
		}
	}
	a.topic.Withdraw(slices.Sorted(maps.Keys(b.heard))...)
	b.wait("all is taken back", map[string]string{})
}

func TestAFrozenProcessIsNotWaitedForForEver(t *testing.T) {
	a := start(t, "127.0.0.1:0")
	a.cfg.Patience = 50 * time.Millisecond
	b := start(t, "127.0.0.1:0", a.address)
	if err := b.Asked(t.Context()); err != nil {
		t.Fatal(err)
	}
	frozen := make(chan struct{})
	b.mu.Lock()
	b.hold = func(context.Context) { <-frozen }
	b.mu.Unlock()
	a.topic.Tell(Fact{Name: "x"})
	if err := a.topic.Heard(t.Context()); err != nil { // returns at all
		t.Fatal(err)
	}
	a.topic.Tell(Fact{Name: "y"})
	close(frozen)
	want := map[string]string{"x": " for false from " + a.address, "y": " for false from " + a.address}
	b.wait("what was told meanwhile comes once it goes on", want)
}

func TestHeardEndsWithItsContext(t *testing.T) {
	a := start(t, "127.0.0.1:0")
	b := start(t, "127.0.0.1:0", a.address)
	if err := b.Asked(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	b.mu.Lock()
	b.hold = func(ctx context.Context) {
		cancel()
		<-ctx.Done()
	}
	b.mu.Unlock()
	a.topic.Tell(Fact{Name: "x"})
	if err := a.topic.Heard(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestWhatAProcessToldHoldsNoMoreWhenItIsGoneAndComesBackWithIt(t *testing.T) {
	a := start(t, "127.0.0.1:0")
	b := start(t, "127.0.0.1:0", a.address)
	a.topic.Tell(Fact{Name: "x"})
	b.wait("x", map[string]string{"x": " for false from " + a.address})
	b.cfg.Grace = time.Hour
	a.stop()
	b.wait("nothing any more", map[string]string{})
	if b.Alone() {
		t.Error("a process that restarts is given up at once")
	}
	b.cfg.Grace = time.Millisecond
	poll(t, "b is alone", b.Alone, func() string { return "" })
	again := start(t, a.address)
	again.topic.Tell(Fact{Name: "y"})
	b.wait("what it tells now", map[string]string{"y": " for false from " + a.address})
}

func TestAllProcessesMayBeGivenOneListAndItMayChange(t *testing.T) {
	a, b := start(t, "127.0.0.1:0"), start(t, "127.0.0.1:0")
	a.topic.Tell(Fact{Name: "x"})
	b.topic.Tell(Fact{Name: "y"})
	for _, p := range []*process{a, b} {
		p.SetPeers(a.address, b.address)
		if err := p.Asked(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	a.wait("the other's alone", map[string]string{"y": " for false from " + b.address})
	b.wait("the other's alone", map[string]string{"x": " for false from " + a.address})
	a.SetPeers(a.address)
	a.wait("nothing of who is not a peer any more", map[string]string{})
	b.topic.Tell(Fact{Name: "z"})
	b.cfg.Patience = 50 * time.Millisecond // b still has a in its list
	if err := b.topic.Heard(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.wait("still nothing", map[string]string{})
	poll(t, "a process that is its own only peer is alone", a.Alone, func() string { return "" })
}

// Of two processes one reads the other first. What that one tells meanwhile must not count as heard.
func TestAPeerThatIsAboutToFollowIsWaitedFor(t *testing.T) {
	a := start(t, "127.0.0.1:0")
	b := start(t, "127.0.0.1:0", a.address)
	if err := b.Asked(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.topic.Tell(Fact{Name: "x"})
	done := make(chan error, 1)
	go func() { done <- b.topic.Heard(t.Context()) }()
	a.SetPeers(b.address)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.heard) != 1 {
		t.Error("b was told that a had heard what it had not")
	}
}
