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
	// Gateway and Node are node.cluster and node.id. Defaults: the constant Gateway, and "fake".
	Gateway, Node string
	// StateOfTheWorld selects the state-of-the-world protocol instead of delta.
	StateOfTheWorld bool
	// Dial are connection options. Default: cleartext.
	Dial []grpc.DialOption
	// Silent are types that the fake never acknowledges.
	Silent []resource.Type
	// Rejects returns the error detail of a cluster or listener to reject; "" accepts it.
	Rejects func(resource.Ref) string
	// Timeout is how long the fake waits for a required response. Then it records a violation.
	// Default: 10 s.
	Timeout time.Duration
}

// Fake is a strict fake Envoy. Over gRPC it requests, applies, warms, ACKs and NACKs in the order
// observed at the real Envoy. It is safe for concurrent use.
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
	Upserts  []string
	Removed  []string
	Same     []string
	Rejected string // error detail of a NACK, or ""
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

// Disconnect ends the stream, but keeps the fake's resources.
func (f *Fake) Disconnect() {
	f.cancel()
	<-f.ended
	_ = f.conn.Close()
}

// Reconnect connects to a control plane, and sends the versions of the fake's resources, as Envoy
// does.
func (f *Fake) Reconnect(address string) {
	f.t.Helper()
	f.Disconnect()
	f.connect(address)
}

func (f *Fake) Violations() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.violations)
}

func (f *Fake) Received() []Received {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

// Has returns a resource's version in force. A cluster that warms for the first time is not in
// force.
func (f *Fake) Has(ref resource.Ref) (version string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.has(ref)
}

// Names returns the names in force, sorted.
func (f *Fake) Names(t resource.Type) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.names(t)
}

// Backends returns the ports that requests to a listener's port may reach, also through internal
// listeners.
func (f *Fake) Backends(port uint32) []uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.backends(port)
}

func (f *Fake) Wait(what string, ok func() bool) {
	f.t.Helper()
	poll.Until(f.t, what, ok)
}

// WaitHas waits until r's version is in force.
func (f *Fake) WaitHas(r *resource.Resource) {
	f.t.Helper()
	f.Wait(r.Ref.String()+" at its version", func() bool {
		v, _ := f.Has(r.Ref)
		return v == r.Version
	})
}

// The caller holds f.mu.
func (f *Fake) violate(format string, args ...any) {
	f.violations = append(f.violations, fmt.Sprintf(format, args...))
}
