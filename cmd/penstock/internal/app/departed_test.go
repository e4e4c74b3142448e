package app

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

func departing(t *testing.T, owner report.Ref) (*cache.Cache, *departed) {
	t.Helper()
	c := cache.New(cache.Config{})
	d := newDeparted(c, time.Minute, slog.New(slog.DiscardHandler))
	d.commit(cache.Batch{Gateway: "ns/gw", Upserts: west(t, owner, "10.1.0.1:8000")})
	d.commit(cache.Batch{Gateway: "ns/gw", Removes: westGone})
	return c, d
}

// has says whether the cache has endpoints of the cluster, and which of two.
func has(c *cache.Cache) (any, old, learnt bool) {
	r := c.Resource("ns/gw", westGone[1])
	if r == nil {
		return false, false, false
	}
	return true, strings.Contains(string(r.Body()), "10.1.0.1"), strings.Contains(string(r.Body()), "10.1.0.9")
}

func TestAClusterThatHasLeftLearnsEndpointsForAWhile(t *testing.T) {
	c, d := departing(t, report.Ref{Kind: "InferencePoolImport", Namespace: "ns", Name: "far"})
	if got := d.learn("ns/other@west", pod9); got != nil {
		t.Errorf("%v learned what is another pool's", got)
	}
	if got := d.learn(westPool, pod9); len(got) != 1 || got[0] != westCluster {
		t.Fatalf("learned by %v", got)
	}
	if any, old, learnt := has(c); !any || !old || !learnt {
		t.Errorf("what was named is there: %t; what was there before: %t", learnt, old)
	}
	if left := d.forget(time.Now()); left <= 0 || left > time.Minute {
		t.Errorf("it is to be forgotten in %s", left)
	}
	d.forget(time.Now().Add(time.Hour))
	if any, _, _ := has(c); any {
		t.Error("its endpoints stay for good")
	}
	if got := d.learn(westPool, pod9); got != nil {
		t.Errorf("%v learned after its time", got)
	}
}

func TestAClusterThatComesAgainIsAsTheObjectsSay(t *testing.T) {
	c, d := departing(t, report.Ref{})
	d.learn(westPool, pod9)
	d.commit(cache.Batch{Gateway: "ns/gw", Upserts: west(t, report.Ref{}, "10.1.0.1:8000")})
	d.forget(time.Now().Add(time.Hour))
	if got := d.learn(westPool, pod9); got != nil {
		t.Errorf("%v learned from here and not from the store", got)
	}
	if any, old, learnt := has(c); !any || !old || learnt {
		t.Errorf("there: %t, with its own endpoint: %t, with the other one: %t", any, old, learnt)
	}
}

// Such a cluster has no TLS: nothing may be sent to it.
func TestAClusterThatAPolicyHasClosedStaysClosedWhenItLeaves(t *testing.T) {
	c, d := departing(t, report.Ref{Kind: "BackendTLSPolicy", Namespace: "ns", Name: "far"})
	d.learn(westPool, pod9)
	if _, _, learnt := has(c); learnt {
		t.Error("an endpoint was added, and would be sent to in clear")
	}
}
