package delivery

import (
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

const westCluster = "import/ns/far/west"

var westPool = objectid.MustParseTarget("ns/far@west")

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
	westGone = []resource.Ref{{Type: resource.Cluster, Name: westCluster},
		{Type: resource.Endpoints, Name: westCluster}}
	pod9 = []netip.AddrPort{netip.MustParseAddrPort("10.1.0.9:8000")}
)

func removed(t *testing.T, owner report.Ref) (*cache.Cache, *Linger) {
	t.Helper()
	c := cache.New(cache.Config{})
	d := NewLinger(c, time.Minute, slog.New(slog.DiscardHandler))
	d.Commit(cache.Batch{Gateway: "ns/gw", Upserts: west(t, owner, "10.1.0.1:8000")})
	d.Commit(cache.Batch{Gateway: "ns/gw", Removes: westGone})
	return c, d
}

func has(c *cache.Cache) (any, old, learned bool) {
	r := c.Resource("ns/gw", westGone[1])
	if r == nil {
		return false, false, false
	}
	return true, strings.Contains(string(r.Body()), "10.1.0.1"), strings.Contains(string(r.Body()), "10.1.0.9")
}

func TestInferencePoolImport_RemovedClusterLearnsEndpointsForAWhile(t *testing.T) {
	c, d := removed(t, report.Ref{Kind: "InferencePoolImport", Namespace: "ns", Name: "far"})
	if got := d.Learn(objectid.MustParseTarget("ns/other@west"), pod9); got != nil {
		t.Errorf("%v learned the address of another pool", got)
	}
	if got := d.Learn(westPool, pod9); len(got) != 1 || got[0] != westCluster {
		t.Fatalf("learned by %v, want %s", got, westCluster)
	}
	if any, old, learned := has(c); !any || !old || !learned {
		t.Errorf("the learned endpoint: %t; the earlier one: %t, want both", learned, old)
	}
	if left := d.expire(time.Now()); left <= 0 || left > time.Minute {
		t.Errorf("it expires in %s, want more than 0 and at most %s", left, time.Minute)
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
		t.Errorf("there: %t, with its own endpoint: %t, with the other one: %t, want true, true, false", any, old,
			learned)
	}
}

func TestInferencePoolImport_EndpointsThatAllLeaveStayForPicksInFlight(t *testing.T) {
	c := cache.New(cache.Config{})
	d := NewLinger(c, time.Minute, slog.New(slog.DiscardHandler))
	commit := func(endpoints ...string) {
		d.Commit(cache.Batch{Gateway: "ns/gw", Upserts: west(t, report.Ref{}, endpoints...)[1:]})
	}
	d.Commit(cache.Batch{Gateway: "ns/gw", Upserts: west(t, report.Ref{}, "10.1.0.1:8000", "10.1.0.2:8000")})
	commit("10.1.0.2:8000") // 10.1.0.1 leaves
	if _, old, _ := has(c); old {
		t.Error("a pod that leaves others stays")
	}
	commit("10.1.0.1:8000")
	commit() // all endpoints leave
	if _, old, _ := has(c); !old {
		t.Error("the pods that a pick in flight may name are gone")
	}
	commit("10.1.0.9:8000") // 10.1.0.9 is learned
	if _, old, learned := has(c); !old || !learned {
		t.Errorf("the earlier pod: %t, the new one: %t, want both", old, learned)
	}
	if left := d.expire(time.Now()); left <= 0 || left > time.Minute {
		t.Errorf("they expire in %s, want more than 0 and at most %s", left, time.Minute)
	}
	d.expire(time.Now().Add(time.Hour))
	if _, old, learned := has(c); old || !learned {
		t.Errorf("after their time, the earlier pod: %t, the new one: %t, want false, true", old, learned)
	}
	commit("10.1.0.1:8000")
	d.Commit(cache.Batch{Gateway: "ns/gw", Removes: westGone})
	d.expire(time.Now().Add(time.Hour))
	if any, _, _ := has(c); any {
		t.Error("the endpoints of a removed cluster are there again")
	}
}

// A cluster that is closed, because it lacks its TLS configuration, gets no endpoints when removed.
func TestBackendTLSPolicy_ClosedClusterStaysClosedWhenRemoved(t *testing.T) {
	c, d := removed(t, report.Ref{Kind: "BackendTLSPolicy", Namespace: "ns", Name: "far"})
	d.Learn(westPool, pod9)
	if _, _, learned := has(c); learned {
		t.Error("an endpoint was added, and would be sent to in clear")
	}
}

// The hops of a removed cluster stay, because a request may have chosen the cluster before.
func TestLinger_HopsToExportingClustersAreKept(t *testing.T) {
	id := model.MembersCluster("ns", "far")
	load, err := envoy.Endpoints(&model.Assignment{
		Cluster:   id,
		Endpoints: []model.Endpoint{{Hop: model.HopID{Import: true, Namespace: "ns", Name: "far", Member: "west"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := envoy.Cluster(&model.Cluster{Name: id, Protocol: model.HTTP1, Fallback: model.FallbackMembers,
		Hops: true})
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

// Envoy calls a picker only after a health check, so replaced pickers stay as a fallback.
func TestExternalPicker_FormerOnesStayBehindThoseThatReplaceAll(t *testing.T) {
	c := cache.New(cache.Config{})
	d := NewLinger(c, time.Minute, slog.New(slog.DiscardHandler))
	ref := resource.Ref{Type: resource.Endpoints, Name: model.PickerCluster("ns", "epp", 9002).String()}
	commit := func(pickers ...string) string {
		t.Helper()
		a := &model.Assignment{Cluster: model.PickerCluster("ns", "epp", 9002)}
		for _, p := range pickers {
			a.Endpoints = append(a.Endpoints, model.Endpoint{Address: netip.MustParseAddrPort(p + ":9002")})
		}
		load, err := envoy.Endpoints(a)
		if err != nil {
			t.Fatal(err)
		}
		d.Commit(cache.Batch{Gateway: "ns/gw", Upserts: []*resource.Resource{load}})
		return priorities(t, c.Resource("ns/gw", ref))
	}
	for _, step := range []struct {
		pickers []string
		want    string
	}{
		{[]string{"10.1.0.1", "10.1.0.2"}, "0: 10.1.0.1 10.1.0.2"},
		{[]string{"10.1.0.2", "10.1.0.3"}, "0: 10.1.0.2 10.1.0.3"}, // 10.1.0.2 stays
		{[]string{"10.1.0.4"}, "0: 10.1.0.4; 1: 10.1.0.2 10.1.0.3"},
		{[]string{"10.1.0.4", "10.1.0.5"}, "0: 10.1.0.4 10.1.0.5; 1: 10.1.0.2 10.1.0.3"},
		{[]string{"10.1.0.3"}, "0: 10.1.0.3; 1: 10.1.0.4 10.1.0.5 10.1.0.2"},
		{nil, ""}, // requests to a removed picker must fail at once
		{[]string{"10.1.0.6"}, "0: 10.1.0.6"},
		{[]string{"10.1.0.7"}, "0: 10.1.0.7; 1: 10.1.0.6"},
	} {
		if got := commit(step.pickers...); got != step.want {
			t.Errorf("the pickers %v are served as %q, want %q", step.pickers, got, step.want)
		}
	}
	if left := d.expire(time.Now()); left <= 0 || left > time.Minute {
		t.Errorf("the former ones expire in %s, want more than 0 and at most %s", left, time.Minute)
	}
	d.expire(time.Now().Add(time.Hour))
	if got := priorities(t, c.Resource("ns/gw", ref)); got != "0: 10.1.0.7" {
		t.Errorf(`after their time the pickers are %q, want "0: 10.1.0.7"`, got)
	}
	for i := range 40 {
		commit(fmt.Sprintf("10.2.0.%d", i))
	}
	if got := strings.Count(priorities(t, c.Resource("ns/gw", ref)), "10."); got != 17 {
		t.Errorf("of pickers that change over and over %d are served, want 17", got)
	}
}

// A datagram session ends with its endpoint, so endpoints drain until answers in flight have
// arrived.
func TestUDPRoute_EndpointsThatLeaveDrain(t *testing.T) {
	c := cache.New(cache.Config{})
	d := NewLinger(c, time.Minute, slog.New(slog.DiscardHandler))
	id := model.DatagramCluster("ns", "gw", 53)
	ref := resource.Ref{Type: resource.Endpoints, Name: id.String()}
	// served lists the addresses that take sessions, then the draining ones.
	served := func() string {
		t.Helper()
		load := &endpointv3.ClusterLoadAssignment{}
		if err := proto.Unmarshal(c.Resource("ns/gw", ref).Body(), load); err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, g := range load.Endpoints {
			for _, e := range g.LbEndpoints {
				text := e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress()
				if e.HealthStatus != corev3.HealthStatus_UNKNOWN {
					text += " " + e.HealthStatus.String()
				} else {
					text += fmt.Sprintf(" %d", e.GetLoadBalancingWeight().GetValue())
				}
				out = append(out, text)
			}
		}
		return strings.Join(out, ", ")
	}
	commit := func(endpoints ...model.Endpoint) string {
		t.Helper()
		load, err := envoy.Endpoints(&model.Assignment{Cluster: id, Endpoints: endpoints})
		if err != nil {
			t.Fatal(err)
		}
		d.Commit(cache.Batch{Gateway: "ns/gw", Upserts: []*resource.Resource{load}})
		return served()
	}
	at := func(ip string, weight uint32) model.Endpoint {
		return model.Endpoint{Address: netip.MustParseAddrPort(ip + ":53"), Weight: weight}
	}
	drop := model.Endpoint{Address: model.DropAddress, Weight: 1}
	for _, step := range []struct {
		endpoints []model.Endpoint
		want      string
	}{
		{[]model.Endpoint{at("10.0.0.1", 3), at("10.0.0.2", 1)}, "10.0.0.1 3, 10.0.0.2 1"},
		{[]model.Endpoint{at("10.0.0.1", 1), at("10.0.0.2", 1)}, "10.0.0.1 1, 10.0.0.2 1"}, // only weights change
		{[]model.Endpoint{at("10.0.0.2", 1), drop}, "10.0.0.2 1, 255.255.255.255 1, 10.0.0.1 DRAINING"},
		{[]model.Endpoint{at("10.0.0.3", 1)}, "10.0.0.3 1, 10.0.0.2 DRAINING, 10.0.0.1 DRAINING"},
		// 10.0.0.1 returns
		{[]model.Endpoint{at("10.0.0.1", 1), at("10.0.0.3", 1)}, "10.0.0.1 1, 10.0.0.3 1, 10.0.0.2 DRAINING"},
		{nil, ""}, // no other endpoint takes these datagrams
		{[]model.Endpoint{at("10.0.0.3", 1)}, "10.0.0.3 1"},
		{[]model.Endpoint{at("10.0.0.4", 1)}, "10.0.0.4 1, 10.0.0.3 DRAINING"},
	} {
		if got := commit(step.endpoints...); got != step.want {
			t.Errorf("endpoints %v are served as %q, want %q", step.endpoints, got, step.want)
		}
	}
	if left := d.expire(time.Now()); left <= 0 || left > time.Minute {
		t.Errorf("draining endpoints expire in %s, want more than 0 and at most %s", left, time.Minute)
	}
	d.expire(time.Now().Add(time.Hour))
	if got := served(); got != "10.0.0.4 1" {
		t.Errorf(`after their time they are %q, want "10.0.0.4 1"`, got)
	}
	var many []model.Endpoint
	for i := range 3000 {
		many = append(many, at(fmt.Sprintf("10.2.%d.%d", i/250, i%250), 1))
	}
	commit(many...)
	if got := strings.Count(commit(at("10.0.0.5", 1)), "DRAINING"); got != 1024 {
		t.Errorf("%d endpoints drain, want 1,024 at most", got)
	}
}

func priorities(t *testing.T, endpoints *resource.Resource) string {
	t.Helper()
	load := &endpointv3.ClusterLoadAssignment{}
	if err := proto.Unmarshal(endpoints.Body(), load); err != nil {
		t.Fatal(err)
	}
	var groups []string
	for _, g := range load.Endpoints {
		group := fmt.Sprintf("%d:", g.Priority)
		for _, e := range g.LbEndpoints {
			group += " " + e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress()
		}
		groups = append(groups, group)
	}
	return strings.Join(groups, "; ")
}
