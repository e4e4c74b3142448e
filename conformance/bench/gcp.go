package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	gcpcache "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	gcpserver "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/conformance/bench/proxy"
	"github.com/penstock-project/penstock/conformance/bench/world"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// gcp has the input for go-control-plane's caches: the assignments that Penstock served, as
// messages, and the requests of proxies that have them.
type gcp struct {
	loads map[string]types.Resource
	have  proxy.Have
}

func newGCP(assignments map[string][]byte) (*gcp, error) {
	g := &gcp{loads: map[string]types.Resource{}, have: proxy.Have{resource.Endpoints: {}}}
	for name, body := range assignments {
		load := &endpointv3.ClusterLoadAssignment{}
		if err := proto.Unmarshal(body, load); err != nil {
			return nil, err
		}
		g.loads[name] = load
		theirs, err := gcpcache.MarshalResource(load) // the order of fields may differ from ours
		if err != nil {
			return nil, err
		}
		g.have[resource.Endpoints][name] = gcpcache.HashResource(theirs)
	}
	return g, nil
}

// gcpCache is one of the caches.
type gcpCache struct {
	gcpcache.Cache
	watched func(name string) int // number of streams that watch a name
	// change prepares another assignment of a name, and returns a function that puts it in force,
	// where the time starts.
	change func(name string, load types.Resource) (func() error, error)
}

// linear returns the cache of one type's resources.
func (g *gcp) linear() gcpCache {
	c := gcpcache.NewLinearCache(resource.Endpoints.URL(), gcpcache.WithInitialResources(maps.Clone(g.loads)))
	return gcpCache{Cache: c, watched: c.NumWatches,
		change: func(name string, load types.Resource) (func() error, error) {
			return func() error { return c.UpdateResource(name, load) }, nil
		}}
}

// byGateway makes the nodes of a gateway share a snapshot.
type byGateway struct{}

func (byGateway) ID(node *corev3.Node) string { return node.GetCluster() }

// snapshot returns the cache of whole snapshots. Each change creates a new one.
func (g *gcp) snapshot(ctx context.Context) (gcpCache, error) {
	c := gcpcache.NewSnapshotCache(true, byGateway{}, nil)
	loads, version := maps.Clone(g.loads), 0
	build := func() (func() error, error) {
		version++
		s, err := gcpcache.NewSnapshot(fmt.Sprint(version),
			map[string][]types.Resource{resource.Endpoints.URL(): slices.Collect(maps.Values(loads))})
		return func() error { return c.SetSnapshot(ctx, world.Gateway, s) }, err
	}
	first, err := build()
	if err == nil {
		err = first()
	}
	watched := func(string) int {
		if info := c.GetStatusInfo(world.Gateway); info != nil {
			return info.GetNumDeltaWatches()
		}
		return 0
	}
	return gcpCache{Cache: c, watched: watched, change: func(name string, load types.Resource) (func() error, error) {
		loads[name] = load
		return build()
	}}, err
}

// fanout measures a cache behind go-control-plane's own server, with our assignments, proxies and
// turns. The proxies request assignments only, and the change starts at the cache.
func (g *gcp) fanout(ctx context.Context, cache gcpCache) (time.Duration, error) {
	s := grpc.NewServer(grpc.MaxRecvMsgSize(64<<20),
		// the proxies' interval is Envoy's
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second}))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, gcpserver.NewServer(ctx, cache, nil))
	address, err := serve(s)
	if err != nil {
		return 0, err
	}
	defer s.Stop()
	watched := func(n int) error {
		return eventually(ctx, func() error {
			if is := cache.watched(model.ServiceCluster("default", "svc-222", 80).String()); is < n {
				return fmt.Errorf("%d of %d streams watch", is, n)
			}
			return nil
		})
	}
	// Not all at once as with ours: while the server looks up one stream's 5,000 names it reads no
	// others, until connections time out.
	c, err := gather(ctx, address, streams, 50, proxy.Resumption(g.have), watched)
	if err != nil {
		return 0, err
	}
	defer c.close()
	var times []time.Duration
	for turn := range 3 {
		name := model.ServiceCluster("default", fmt.Sprint("svc-", 222*(turn+1)), 80).String()
		if err := watched(streams); err != nil {
			return 0, errors.Join(err, c.errors())
		}
		changed := proto.Clone(g.loads[name]).(*endpointv3.ClusterLoadAssignment)
		changed.Endpoints[0].LbEndpoints[0].GetEndpoint().GetAddress().GetSocketAddress().
			Address = fmt.Sprintf("127.99.0.%d", turn+1)
		put, err := cache.change(name, changed)
		if err != nil {
			return 0, err
		}
		c.expect(name)
		start := time.Now()
		if err := put(); err != nil {
			return 0, err
		}
		at, err := c.wait(ctx)
		if err != nil {
			return 0, err
		}
		times = append(times, at.Sub(start))
	}
	if n := c.resent.Load(); n > 0 {
		return 0, fmt.Errorf("%d resources were sent that did not change", n)
	}
	return median(times), nil
}
