package xdstest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// FakeConfig says what a fake Envoy is like.
type FakeConfig struct {
	// Address is the control plane's. Required.
	Address string
	// Gateway and Node are what it calls itself. Default: the package's Gateway, and "fake".
	Gateway, Node string
	// StateOfTheWorld makes it use that variant.
	StateOfTheWorld bool
	// Dial is how the control plane is reached, and by whom: credentials. Default: in cleartext, by nobody.
	Dial []grpc.DialOption
	// Silent are types whose responses it applies but never answers.
	Silent []resource.Type
	// Refuses says in which words it refuses a cluster or listener, "" if it takes it. nil: it refuses only what Envoy would.
	Refuses func(resource.Ref) string
	// Patience is how long it waits for an answer that the control plane owes it, before it counts as a violation.
	// Default: 10 s.
	Patience time.Duration
}

// Fake is a strict fake Envoy: it asks, applies, warms, ACKs and NACKs in the order that DELIVERY.md saw, over real gRPC,
// and notes what the control plane did wrong. Safe for use by many.
type Fake struct {
	config FakeConfig
	t      testing.TB
	conn   *grpc.ClientConn

	cancel context.CancelFunc // ends the current stream
	ended  chan struct{}      // closed when it has

	mu         sync.Mutex
	state      proxy
	violations []string
	log        []Received
}

// Received is one response that a Fake got.
type Received struct {
	Type     resource.Type
	Upserts  []string // names
	Removed  []string
	Same     []string // names that it had at just this version
	Rejected string   // its NACK; empty: ACK
}

// StartFake connects a fake Envoy and keeps it until the end of the test, which fails if there was any violation.
func StartFake(t testing.TB, c FakeConfig) *Fake {
	t.Helper()
	if c.Gateway == "" {
		c.Gateway = Gateway
	}
	if c.Node == "" {
		c.Node = "fake"
	}
	if c.Patience == 0 {
		c.Patience = 10 * time.Second
	}
	f := &Fake{config: c, t: t, state: newProxy()}
	f.connect(c.Address)
	t.Cleanup(func() {
		f.Disconnect()
		for _, v := range f.Violations() {
			t.Errorf("%s: %s", c.Node, v)
		}
	})
	return f
}

func (f *Fake) connect(address string) {
	f.t.Helper()
	dial := f.config.Dial
	if dial == nil {
		dial = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	}
	conn, err := grpc.NewClient(address, append(slices.Clone(dial), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))...)
	if err != nil {
		f.t.Fatalf("xdstest: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.conn, f.cancel, f.ended = conn, cancel, make(chan struct{})
	w, err := f.open(ctx)
	if err != nil {
		cancel()
		f.t.Fatalf("xdstest: %v", err)
	}
	f.mu.Lock()
	f.state.restart()
	f.mu.Unlock()
	s := &session{fake: f, wire: w, node: &corev3.Node{Id: f.config.Node, Cluster: f.config.Gateway}}
	go func(ended chan struct{}) {
		defer close(ended)
		s.run(ctx)
	}(f.ended)
}

// Disconnect ends the stream. What the fake has, it keeps.
func (f *Fake) Disconnect() {
	f.cancel()
	<-f.ended
	_ = f.conn.Close()
}

// Reconnect connects again, to the same or another control plane, as Envoy does: with all that it has.
func (f *Fake) Reconnect(address string) {
	f.t.Helper()
	f.Disconnect()
	f.connect(address)
}

// Violations are the control plane's mistakes so far.
func (f *Fake) Violations() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.violations)
}

// Received are the responses so far.
func (f *Fake) Received() []Received {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

// Has is the version of a resource that is in force: a warming cluster is not, a warmed one's old version still is.
func (f *Fake) Has(ref resource.Ref) (version string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.has(ref)
}

// Untold says whether anything is in force that no control plane can know of: it came in a response that was refused in
// part, and the stream ended before it came again (DELIVERY 3). What that names is then in force too.
func (f *Fake) Untold() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.state.untold) > 0
}

// Names are the names of a type that are in force, sorted.
func (f *Fake) Names(t resource.Type) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.names(t)
}

// Backends are the ports of 127.0.0.1 that requests to a port may reach, through hops too.
func (f *Fake) Backends(port uint32) []uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.backends(port)
}

// Wait polls a condition, or fails the test.
func (f *Fake) Wait(what string, ok func() bool) {
	f.t.Helper()
	poll.Until(f.t, what, ok)
}

// WaitHas waits until a resource is in force at just this version.
func (f *Fake) WaitHas(r *resource.Resource) {
	f.t.Helper()
	f.Wait(r.Ref.String()+" at its version", func() bool {
		v, _ := f.Has(r.Ref)
		return v == r.Version
	})
}

// violate notes a mistake. Called with mu held.
func (f *Fake) violate(format string, args ...any) {
	f.violations = append(f.violations, fmt.Sprintf(format, args...))
}
