package server_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/server"
	"github.com/penstock-project/penstock/xds/xdstest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func TestADS_ChangeReachesOnlyItsGateway(t *testing.T) {
	const gateways, changed = 300, 7
	c := xdstest.Serve(t, server.Config{})
	commit := func(i int, port uint32) *resource.Resource {
		r := xdstest.Endpoints(t, "cluster-0", port)
		c.Cache.Commit(cache.Batch{Gateway: fmt.Sprint("default/gw-", i), Upserts: []*resource.Resource{r}})
		return r
	}
	conn := dial(t, c)
	proxies := make([]*client, gateways)
	for i := range proxies {
		commit(i, 1)
		proxies[i] = subscribe(t, conn, fmt.Sprint("default/gw-", i), "envoy")
		proxies[i].next()
	}
	first := commit(changed, 2)
	if got := proxies[changed].next(); got.GetResources()[0].GetVersion() != first.Version {
		t.Fatalf("received %v, want version %s", got, first.Version)
	}
	for i, p := range proxies {
		second := commit(i, 3)
		if got := p.next(); len(got.GetResources()) != 1 || got.GetResources()[0].GetVersion() != second.Version {
			t.Errorf("gateway %d received %v of another one's change, want its own version %s", i, got, second.Version)
		}
	}
}

func bulky(t testing.TB, version int) *resource.Resource {
	return xdstest.Resource(t, resource.Endpoints, "cluster-0", &endpointv3.ClusterLoadAssignment{
		ClusterName: "cluster-0", Endpoints: []*endpointv3.LocalityLbEndpoints{{
			Priority: uint32(version), Locality: &corev3.Locality{Region: strings.Repeat("x", 100<<10)},
		}},
	})
}

func TestADS_ProxyThatDoesNotReadGetsTheNewestVersion(t *testing.T) {
	c := xdstest.Serve(t, server.Config{})
	c.Commit([]*resource.Resource{bulky(t, 0)})
	// The first response fills the flow control window, so the server's sends block.
	slow := subscribe(t, dial(t, c, grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10)),
		xdstest.Gateway, "slow")
	good := connect(t, dial(t, c), "good")
	var last *resource.Resource
	const changes = 100
	for i := range changes {
		last = bulky(t, 1+i)
		c.Commit([]*resource.Resource{last})
		if got := good.next(); got.GetResources()[0].GetVersion() != last.Version {
			t.Fatalf("change %d: received another version, want %s", i, last.Version)
		}
	}
	for n := 1; ; n++ {
		if slow.next().GetResources()[0].GetVersion() == last.Version {
			if n > changes/2 {
				t.Errorf("it was sent %d versions, most of them old, want at most %d", n, changes/2)
			}
			return
		}
	}
}

type verdicts struct {
	mu     sync.Mutex
	byNode map[string][]report.Report
}

func (v *verdicts) Rejected(_, node string, list []report.Report) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.byNode[node] = list
}

func (v *verdicts) against(node string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.byNode[node])
}

func TestNACK_WithholdsFromRejectingProxyOnly(t *testing.T) {
	v := &verdicts{byNode: map[string][]report.Report{}}
	c := xdstest.Serve(t, server.Config{Reports: v})
	c.Commit([]*resource.Resource{xdstest.Endpoints(t, "cluster-0", 1)})
	conn := dial(t, c)
	picky, other := connect(t, conn, "picky"), connect(t, conn, "other")

	rejected := xdstest.Endpoints(t, "cluster-0", 2)
	c.Commit([]*resource.Resource{rejected})
	if got := other.next(); got.GetResources()[0].GetVersion() != rejected.Version {
		t.Fatalf("the other one received %v, want version %s", got, rejected.Version)
	}
	picky.send(&discoveryv3.DeltaDiscoveryRequest{
		ResponseNonce: picky.receive().GetNonce(), ErrorDetail: &status.Status{Message: "not for me"},
	})
	poll.Until(t, "the owner gets a report", func() bool { return v.against("picky") == 1 })
	poll.Until(t, "the other one in sync, and that one not", func() bool {
		list := c.Server.Proxies()
		return len(list) == 2 && slices.ContainsFunc(list,
			func(p server.ProxyStatus) bool {
				return p.Node == "picky" && p.Types[resource.Endpoints].Rejected == 1
			}) &&
			slices.ContainsFunc(list, func(p server.ProxyStatus) bool {
				return p.Node == "other" && p.Types[resource.Endpoints].InSync()
			})
	})
	if v.against("other") != 0 {
		t.Error("the other proxy is reported to reject it too")
	}

	valid := xdstest.Endpoints(t, "cluster-0", 3)
	c.Commit([]*resource.Resource{valid})
	for _, p := range []*client{picky, other} {
		if got := p.next(); len(got.GetResources()) != 1 || got.GetResources()[0].GetVersion() != valid.Version {
			t.Errorf("received %v, want version %s", got, valid.Version)
		}
	}
	poll.Until(t, "the report is cleared", func() bool { return v.against("picky") == 0 })
}
