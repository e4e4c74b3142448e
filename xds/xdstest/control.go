package xdstest

import (
	"context"
	"math"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/server"
)

// Gateway is the gateway to which Control.Commit commits.
const Gateway = "default/web"

// Control is a control plane in a test.
type Control struct {
	Cache   *cache.Cache
	Server  *server.Server
	Address string

	t        testing.TB
	listener *net.TCPListener
	grpc     *grpc.Server
}

// Serve runs a Control until the end of the test. If Config.Cache is nil, it creates a ready cache.
func Serve(t testing.TB, c server.Config) *Control {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatalf("xdstest: %v", err)
	}
	out := &Control{Address: l.Addr().String(), t: t, listener: l}
	out.Start(c)
	t.Cleanup(func() {
		out.Stop()
		_ = l.Close()
	})
	return out
}

// Start runs a new server at the address of a stopped server.
func (c *Control) Start(config server.Config) {
	c.t.Helper()
	if config.Cache == nil {
		config.Cache = cache.New(cache.Config{})
		config.Cache.SetReady()
	}
	s, err := server.New(config)
	if err != nil {
		c.t.Fatalf("xdstest: %v", err)
	}
	c.Cache, c.Server, c.grpc = config.Cache, s,
		grpc.NewServer(append(server.Options(), grpc.MaxConcurrentStreams(math.MaxUint32))...)
	s.Register(c.grpc)
	_ = c.listener.SetDeadline(time.Time{})
	go func(g *grpc.Server) { _ = g.Serve(keptListener{c.listener}) }(c.grpc)
}

// Stop ends the server like a crash, but keeps its port: connecting clients wait.
func (c *Control) Stop() { c.grpc.Stop() }

type keptListener struct{ *net.TCPListener }

func (k keptListener) Close() error { return k.SetDeadline(time.Unix(1, 0)) }

func (c *Control) Commit(upserts []*resource.Resource, removes ...resource.Ref) {
	c.Cache.Commit(cache.Batch{Gateway: Gateway, Upserts: upserts, Removes: removes})
}

// WaitAcked waits until all proxies have the current versions.
func (c *Control) WaitAcked(refs ...resource.Ref) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	for _, ref := range refs {
		if err := c.Server.WaitAcked(ctx, Gateway, ref, ""); err != nil {
			c.t.Fatalf("xdstest: %v", err)
		}
	}
}
