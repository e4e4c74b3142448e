package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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
	"github.com/penstock-project/penstock/conformance/bench/world"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

const streams = 1000

// measureFanout: one endpoint of 50,000 changes, and 1,000 proxies have to know.
func measureFanout(ctx context.Context, _ config, out report) error {
	ours, assignments, err := fanout(ctx, out)
	if err != nil {
		return err
	}
	runtime.GC() // ours is not theirs to collect
	theirs, err := fanoutLinear(ctx, assignments)
	if err != nil {
		return fmt.Errorf("go-control-plane: %w", err)
	}
	out("endpoint_fanout_vs_gcp", "", float64(ours)/float64(theirs))
	out("endpoint_fanout_vs_gcp", "gcp", milliseconds(theirs))
	return nil
}

// fanout measures ours, from the store's commit on, and returns the assignments that were served.
func fanout(ctx context.Context, out report) (time.Duration, map[string][]byte, error) {
	var t tap
	r, err := newRig(world.Fleet, t.option())
	if err != nil {
		return 0, nil, err
	}
	defer r.close()
	first, err := r.attach(ctx, nil)
	if err != nil {
		return 0, nil, err
	}
	have := first.Have()
	first.Close()
	c, _, err := resume(ctx, r.address, streams, have)
	if err != nil {
		return 0, nil, err
	}
	defer c.close()
	var sent, received, floor, floorReceived []time.Duration
	for turn := 1; turn <= 15; turn++ {
		backend := turn * 222
		name := model.ServiceCluster("default", fmt.Sprint("svc-", backend), 80)
		_, slice := r.world.Service(backend, turn)
		c.expect(name)
		t.begin()
		start := time.Now()
		if err := r.change(store.EndpointSlices.Put(slice)); err != nil {
			return 0, nil, err
		}
		took, err := t.wait(ctx, streams, start)
		if err != nil {
			return 0, nil, err
		}
		at, err := c.wait(ctx)
		if err != nil {
			return 0, nil, err
		}
		sent, received = append(sent, took), append(received, at.Sub(start))
		if err := t.answered(ctx, streams); err != nil {
			return 0, nil, err
		}
		c.expect(name)
		start = time.Now()
		took, err = t.constant(ctx)
		if err != nil {
			return 0, nil, err
		}
		if at, err = c.wait(ctx); err != nil {
			return 0, nil, err
		}
		floor, floorReceived = append(floor, took), append(floorReceived, at.Sub(start))
		if err := t.answered(ctx, streams); err != nil {
			return 0, nil, err
		}
	}
	if n := c.resent.Load(); n > 0 {
		return 0, nil, fmt.Errorf("%d resources were sent that did not change", n)
	}
	out("endpoint_fanout", "", float64(median(received))/float64(median(floorReceived)))
	out("endpoint_fanout", "ours", milliseconds(median(received)))
	out("endpoint_fanout", "constant", milliseconds(median(floorReceived)))
	out("endpoint_fanout", "queued", float64(median(sent))/float64(median(floor)))
	assignments := map[string][]byte{}
	for _, res := range r.translator.Resources(world.Gateway) {
		if res.Type == resource.Endpoints {
			assignments[res.Name] = res.Body()
		}
	}
	return median(received), assignments, nil
}

// fanoutLinear measures go-control-plane's LinearCache behind its own server: the same assignments, proxies and turns,
// though the proxies ask for assignments only, and the change starts at the cache.
func fanoutLinear(ctx context.Context, assignments map[string][]byte) (time.Duration, error) {
	loads := map[string]types.Resource{}
	have := proxy.Have{resource.Endpoints: {}}
	for name, body := range assignments {
		load := &endpointv3.ClusterLoadAssignment{}
		if err := proto.Unmarshal(body, load); err != nil {
			return 0, err
		}
		loads[name] = load
		theirs, err := gcpcache.MarshalResource(load) // ours may have the same in another order
		if err != nil {
			return 0, err
		}
		have[resource.Endpoints][name] = gcpcache.HashResource(theirs)
	}
	linear := gcpcache.NewLinearCache(resource.Endpoints.URL(), gcpcache.WithInitialResources(loads))
	s := grpc.NewServer(grpc.MaxRecvMsgSize(64<<20),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second})) // the proxies ask as often as Envoys do
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, gcpserver.NewServer(ctx, linear, nil))
	address, err := serve(s)
	if err != nil {
		return 0, err
	}
	defer s.Stop()
	c, err := gather(ctx, address, streams, proxy.Resumption(have))
	if err != nil {
		return 0, err
	}
	defer c.close()
	var times []time.Duration
	for turn := range 3 {
		name := model.ServiceCluster("default", fmt.Sprint("svc-", 222*(turn+1)), 80)
		if err := eventually(ctx, func() error {
			if n := linear.NumWatches(name); n < streams {
				return fmt.Errorf("%d of %d streams watch %s", n, streams, name)
			}
			return nil
		}); err != nil {
			return 0, errors.Join(err, c.errors())
		}
		changed := proto.Clone(loads[name]).(*endpointv3.ClusterLoadAssignment)
		changed.Endpoints[0].LbEndpoints[0].GetEndpoint().GetAddress().GetSocketAddress().Address = fmt.Sprintf("127.99.0.%d", turn+1)
		c.expect(name)
		start := time.Now()
		if err := linear.UpdateResource(name, changed); err != nil {
			return 0, err
		}
		at, err := c.wait(ctx)
		if err != nil {
			return 0, err
		}
		times = append(times, at.Sub(start))
	}
	if n := c.resent.Load(); n > 0 {
		return 0, fmt.Errorf("%d resources were sent that did not change: it does not know what the proxies have", n)
	}
	return median(times), nil
}
