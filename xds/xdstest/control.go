package xdstest

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/server"
)

// Gateway is the gateway that a Control serves to whom does not ask for another.
const Gateway = "default/web"

// Control is a whole control plane in a test: a cache, and its server on a port of 127.0.0.1.
type Control struct {
	Cache   *cache.Cache
	Server  *server.Server
	Address string

	t    testing.TB
	grpc *grpc.Server
}

// Serve runs a Control until the end of the test, or Stop. Config.Cache is filled in, if it is nil with a new cache
// that is ready.
func Serve(t testing.TB, c server.Config) *Control {
	t.Helper()
	return ServeAt(t, c, "127.0.0.1:0")
}

// ServeAt is Serve at a given address, such as that of a Control which was stopped.
func ServeAt(t testing.TB, c server.Config, address string) *Control {
	t.Helper()
	if c.Cache == nil {
		c.Cache = cache.New(cache.Config{})
		c.Cache.SetReady()
	}
	s, err := server.New(c)
	if err != nil {
		t.Fatalf("xdstest: %v", err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("xdstest: %v", err)
	}
	out := &Control{Cache: c.Cache, Server: s, Address: l.Addr().String(), t: t, grpc: grpc.NewServer(server.Options()...)}
	s.Register(out.grpc)
	go func() { _ = out.grpc.Serve(l) }()
	t.Cleanup(out.Stop)
	return out
}

// Stop ends the server as a crash would. It may be called twice.
func (c *Control) Stop() { c.grpc.Stop() }

// Commit is one revision of Gateway.
func (c *Control) Commit(upserts []*resource.Resource, removes ...resource.Ref) {
	c.Cache.Commit(cache.Batch{Gateway: Gateway, Upserts: upserts, Removes: removes})
}

// WaitAcked waits until all proxies have the current version of resources, or fails the test after half a minute.
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
