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

// FakeConfig configures a fake Envoy.
type FakeConfig struct {
	// Address of the control plane. Required.
	Address string
	// Gateway and Node are the node.cluster and node.id that the fake sends. Defaults: the constant
	// Gateway, and "fake".
	Gateway, Node string
	// StateOfTheWorld selects the state-of-the-world variant.
	StateOfTheWorld bool
	// Dial are options of the connection, such as credentials. Default: cleartext, without
	// credentials.
	Dial []grpc.DialOption
	// Silent are types whose responses the fake applies but never acknowledges.
	Silent []resource.Type
	// Rejects returns the error detail with which the fake rejects a cluster or listener, or "".
	Rejects func(resource.Ref) string
	// Timeout is how long the fake waits for a required response before it records a violation.
	// Default: 10 s.
	Timeout time.Duration
}

// Fake is a strict fake Envoy. Over real gRPC it requests, applies, warms, ACKs and NACKs in the
// order that was observed at the real Envoy. It is safe for concurrent use.
type Fake struct {
	config FakeConfig
	t      testing.TB
	conn   *grpc.ClientConn

	cancel context.CancelFunc
	ended  chan struct{}

	mu         sync.Mutex
	state      proxy
	violations []string
	log        []Received
}

// Received is one response to a Fake.
type Received struct {
	Type     resource.Type
	Upserts  []string // names
	Removed  []string
	Same     []string // upserts that changed nothing
	Rejected string   // error detail of the fake's NACK; "" for an ACK
}

// StartFake connects a fake Envoy until the end of the test. A violation fails the test.
func StartFake(t testing.TB, c FakeConfig) *Fake {
	t.Helper()
	if c.Gateway == "" {
		c.Gateway = Gateway
	}
	if c.Node == "" {
		c.Node = "fake"
	}
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	f := &Fake{config: c, t: t, state: newProxy()}
	f.connect(c.Address)
	t.Cleanup(func() {
		f.Disconnect()
		for _, v := range f.Violations() {
			t.Errorf("%s: %s, want no violation", c.Node, v)
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
	conn, err := grpc.NewClient(address,
		append(slices.Clone(dial), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))...)
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

// Disconnect ends the stream. The fake keeps its resources.
func (f *Fake) Disconnect() {
	f.cancel()
	<-f.ended
	_ = f.conn.Close()
}

// Reconnect connects to a control plane. Like Envoy, it sends the versions of its resources.
func (f *Fake) Reconnect(address string) {
	f.t.Helper()
	f.Disconnect()
	f.connect(address)
}

// Violations returns the violations by the control plane so far.
func (f *Fake) Violations() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.violations)
}

// Received returns the responses so far.
func (f *Fake) Received() []Received {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

// Has returns the version of a resource that is in force. A cluster that warms for the first time
// is not in force.
func (f *Fake) Has(ref resource.Ref) (version string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.has(ref)
}

// Names returns the names of a type that are in force, sorted.
func (f *Fake) Names(t resource.Type) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.names(t)
}

// Backends returns the ports that requests to a port may reach, directly or through hops.
func (f *Fake) Backends(port uint32) []uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.backends(port)
}

// Wait polls a condition.
func (f *Fake) Wait(what string, ok func() bool) {
	f.t.Helper()
	poll.Until(f.t, what, ok)
}

// WaitHas waits until a resource is in force at its version.
func (f *Fake) WaitHas(r *resource.Resource) {
	f.t.Helper()
	f.Wait(r.Ref.String()+" at its version", func() bool {
		v, _ := f.Has(r.Ref)
		return v == r.Version
	})
}

// mu is held.
func (f *Fake) violate(format string, args ...any) {
	f.violations = append(f.violations, fmt.Sprintf(format, args...))
}
