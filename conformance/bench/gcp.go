package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	gcpcache "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	gcpserver "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/conformance/bench/proxy"
	"github.com/penstock-project/penstock/xds/resource"
)

// gcpFanout measures go-control-plane's LinearCache behind its own server, with the assignments
// that Penstock served, the same proxies and turns. The proxies request assignments only, and the
// change starts at the cache.
func gcpFanout(ctx context.Context, assignments map[string][]byte) (time.Duration, error) {
	loads, have := map[string]types.Resource{}, proxy.Have{resource.Endpoints: {}}
	for name, body := range assignments {
		load := &endpointv3.ClusterLoadAssignment{}
		if err := proto.Unmarshal(body, load); err != nil {
			return 0, err
		}
		theirs, err := gcpcache.MarshalResource(load) // the order of fields may differ from ours
		if err != nil {
			return 0, err
		}
		loads[name], have[resource.Endpoints][name] = load, gcpcache.HashResource(theirs)
	}
	cache := gcpcache.NewLinearCache(resource.Endpoints.URL(), gcpcache.WithInitialResources(loads))
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
			if watching := cache.NumWatches(assignmentName(222)); watching < n {
				return fmt.Errorf("%d of %d streams watch", watching, n)
			}
			return nil
		})
	}
	// 50 at a time: while the server looks up one stream's 5,000 names it reads no others, until
	// connections time out.
	c, err := gather(ctx, address, streams, 50, proxy.Resumption(have), watched)
	if err != nil {
		return 0, err
	}
	defer c.close()
	var times []time.Duration
	for turn := range 3 {
		name := assignmentName(222 * (turn + 1))
		if err := watched(streams); err != nil {
			return 0, errors.Join(err, c.errors())
		}
		changed := &endpointv3.ClusterLoadAssignment{}
		if err := proto.Unmarshal(assignments[name], changed); err != nil {
			return 0, err
		}
		changed.Endpoints[0].LbEndpoints[0].GetEndpoint().GetAddress().GetSocketAddress().
			Address = fmt.Sprintf("127.99.0.%d", turn+1)
		c.expect(name)
		start := time.Now()
		if err := cache.UpdateResource(name, changed); err != nil {
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
