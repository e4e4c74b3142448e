package delivery

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

const (
	westPool    = "ns/far@west"
	westCluster = "import/ns/far/west"
)

// west is the cluster of an import, and its endpoints.
func west(t *testing.T, owner report.Ref, endpoints ...string) []*resource.Resource {
	t.Helper()
	a := &model.Assignment{Cluster: westID}
	for _, e := range endpoints {
		a.Endpoints = append(a.Endpoints, model.Endpoint{Address: netip.MustParseAddrPort(e)})
	}
	load, err := envoy.Endpoints(a)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := envoy.Cluster(&model.Cluster{Name: westID, Protocol: model.HTTP1, Owners: []report.Ref{owner}})
	if err != nil {
		t.Fatal(err)
	}
	return []*resource.Resource{cluster, load}
}

var (
	westID   = model.ImportCluster("ns", "far", "west")
	westGone = []resource.Ref{{Type: resource.Cluster, Name: westCluster}, {Type: resource.Endpoints, Name: westCluster}}
	pod9     = []netip.AddrPort{netip.MustParseAddrPort("10.1.0.9:8000")}
)

func removed(t *testing.T, owner report.Ref) (*cache.Cache, *Linger) {
	t.Helper()
	c := cache.New(cache.Config{})
	d := NewLinger(c, time.Minute, slog.New(slog.DiscardHandler))
	d.Commit(cache.Batch{Gateway: "ns/gw", Upserts: west(t, owner, "10.1.0.1:8000")})
	d.Commit(cache.Batch{Gateway: "ns/gw", Removes: westGone})
	return c, d
}

// has reports whether the cache has endpoints of the cluster, and which of two.
func has(c *cache.Cache) (any, old, learned bool) {
	r := c.Resource("ns/gw", westGone[1])
	if r == nil {
		return false, false, false
	}
	return true, strings.Contains(string(r.Body()), "10.1.0.1"), strings.Contains(string(r.Body()), "10.1.0.9")
}

func TestInferencePoolImport_RemovedClusterLearnsEndpointsForAWhile(t *testing.T) {
	c, d := removed(t, report.Ref{Kind: "InferencePoolImport", Namespace: "ns", Name: "far"})
	if got := d.Learn("ns/other@west", pod9); got != nil {
		t.Errorf("%v learned the address of another pool", got)
	}
	if got := d.Learn(westPool, pod9); len(got) != 1 || got[0] != westCluster {
		t.Fatalf("learned by %v", got)
	}
	if any, old, learned := has(c); !any || !old || !learned {
		t.Errorf("the learned endpoint: %t; the earlier one: %t", learned, old)
	}
	if left := d.expire(time.Now()); left <= 0 || left > time.Minute {
		t.Errorf("it expires in %s", left)
	}
	d.expire(time.Now().Add(time.Hour))
	if any, _, _ := has(c); any {
		t.Error("its endpoints stay for good")
	}
	if got := d.Learn(westPool, pod9); got != nil {
		t.Errorf("%v learned after its time", got)
	}
}

func TestInferencePoolImport_ReturningClusterHasTheObjectsEndpoints(t *testing.T) {
	c, d := removed(t, report.Ref{})
	d.Learn(westPool, pod9)
	d.Commit(cache.Batch{Gateway: "ns/gw", Upserts: west(t, report.Ref{}, "10.1.0.1:8000")})
	d.expire(time.Now().Add(time.Hour))
	if got := d.Learn(westPool, pod9); got != nil {
		t.Errorf("%v learned although the store has them", got)
	}
	if any, old, learned := has(c); !any || !old || learned {
		t.Errorf("there: %t, with its own endpoint: %t, with the other one: %t", any, old, learned)
	}
}

// An import that declared its endpoints does no more: a pick that is in flight names one of them, before any is learned.
func TestInferencePoolImport_EndpointsThatAllLeaveStayForPicksInFlight(t *testing.T) {
	c := cache.New(cache.Config{})
	d := NewLinger(c, time.Minute, slog.New(slog.DiscardHandler))
	commit := func(endpoints ...string) {
		d.Commit(cache.Batch{Gateway: "ns/gw", Upserts: west(t, report.Ref{}, endpoints...)[1:]})
	}
	d.Commit(cache.Batch{Gateway: "ns/gw", Upserts: west(t, report.Ref{}, "10.1.0.1:8000", "10.1.0.2:8000")})
	commit("10.1.0.2:8000") // one leaves
	if _, old, _ := has(c); old {
		t.Error("a pod that leaves others stays")
	}
	commit("10.1.0.1:8000")
	commit() // all leave
	if _, old, _ := has(c); !old {
		t.Error("the pods that a pick in flight may name are gone")
	}
	commit("10.1.0.9:8000") // is learned
	if _, old, learned := has(c); !old || !learned {
		t.Errorf("the earlier pod: %t, the new one: %t", old, learned)
	}
	if left := d.expire(time.Now()); left <= 0 || left > time.Minute {
		t.Errorf("they expire in %s", left)
	}
	d.expire(time.Now().Add(time.Hour))
	if _, old, learned := has(c); old || !learned {
		t.Errorf("after their time, the earlier pod: %t, the new one: %t", old, learned)
	}
	commit("10.1.0.1:8000")
	d.Commit(cache.Batch{Gateway: "ns/gw", Removes: westGone})
	d.expire(time.Now().Add(time.Hour))
	if any, _, _ := has(c); any {
		t.Error("the endpoints of a removed cluster are there again")
	}
}

// Such a cluster has no TLS: nothing may be sent to it.
func TestBackendTLSPolicy_ClosedClusterStaysClosedWhenRemoved(t *testing.T) {
	c, d := removed(t, report.Ref{Kind: "BackendTLSPolicy", Namespace: "ns", Name: "far"})
	d.Learn(westPool, pod9)
	if _, _, learned := has(c); learned {
		t.Error("an endpoint was added, and would be sent to in clear")
	}
}

// A request may have chosen the cluster of hops while its route changes.
func TestLinger_HopsToExportingClustersAreKept(t *testing.T) {
	id := model.MembersCluster("ns", "far")
	load, err := envoy.Endpoints(&model.Assignment{Cluster: id, Endpoints: []model.Endpoint{{Hop: model.HopID{Import: true, Namespace: "ns", Name: "far", Member: "west"}}}})
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := envoy.Cluster(&model.Cluster{Name: id, Protocol: model.HTTP1, Fallback: model.FallbackMembers, Hops: true})
	if err != nil {
		t.Fatal(err)
	}
	c := cache.New(cache.Config{})
	d := NewLinger(c, time.Minute, slog.New(slog.DiscardHandler))
	d.Commit(cache.Batch{Gateway: "ns/gw", Upserts: []*resource.Resource{cluster, load}})
	d.Commit(cache.Batch{Gateway: "ns/gw", Removes: []resource.Ref{cluster.Ref, load.Ref}})
	if c.Resource("ns/gw", cluster.Ref) != nil || c.Resource("ns/gw", load.Ref) == nil {
		t.Error("the cluster is to be removed, and its endpoints kept")
	}
	d.expire(time.Now().Add(time.Hour))
	if c.Resource("ns/gw", load.Ref) != nil {
		t.Error("the endpoints are kept for ever")
	}
}
