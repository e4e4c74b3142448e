package envoy

import (
	"slices"
	"testing"

	"github.com/penstock-project/penstock/translator/model"
)

// The route must remove the caller that a gate found, so that no server receives it. In a cluster
// with pods and hops, an upstream filter must write the caller for hops, because their pickers read
// it.
func TestGate_CallerReachesHopsAlone(t *testing.T) {
	pool, far := model.PoolCluster("ns", "chat"), model.ImportCluster("ns", "far", "east")
	picked := func(p model.PickerCall) *model.PickerCall {
		p.Cluster, p.Pool = model.OurPicker, pool.Pool()
		return &p
	}
	gated, open := pickerCalls{mode: withoutBody, gated: true}, pickerCalls{mode: withoutBody}
	for _, c := range []struct {
		name    string
		hops    bool
		calls   pickerCalls
		backend model.WeightedBackend
		removed bool
		written bool // an upstream filter writes the caller for hops
		peer    bool // the host is at a peer listener, and trusts callers of a member
	}{
		{"a Service", false, gated, model.WeightedBackend{Cluster: named("a")}, true, false, false},
		{"an open route", false, open, model.WeightedBackend{Cluster: named("a")}, false, false, false},
		{"a pool", false, gated,
			model.WeightedBackend{Cluster: pool, Picker: picked(model.PickerCall{})}, true, false, false},
		{"a pool that picks again", false, gated,
			model.WeightedBackend{Cluster: pool, Picker: picked(model.PickerCall{Again: true})}, true, true, false},
		{"a pool that spills", false, gated,
			model.WeightedBackend{Cluster: pool, Picker: picked(model.PickerCall{Spills: true})}, true, true, false},
		{"an open pool that spills", false, open,
			model.WeightedBackend{Cluster: pool, Picker: picked(model.PickerCall{Spills: true})}, false, false, false},
		{"a pool behind hops", false, gated, model.WeightedBackend{Cluster: pool, Hops: true}, false, false, false},
		{"an import in EndpointMode", false, gated, model.WeightedBackend{Cluster: far, Picker: &model.PickerCall{
			Cluster: model.ImportPickerCluster("ns", "far", "east"), RemotePool: "ns/far"}}, true, false, false},
		{"an import in ParentMode", false, gated,
			model.WeightedBackend{Cluster: model.ParentCluster("ns", "far", "east")}, true, false, false},
		{"an import of members", false, gated,
			model.WeightedBackend{Cluster: model.PeerCluster("ns", "far", "east"), Peer: "east.peer"}, true, false,
			false},
		{"an import of several clusters", false, gated, model.WeightedBackend{Cluster: far,
			Members: []model.WeightedBackend{{Cluster: far, Weight: 1}}}, false, false, false},
		{"a pool behind a hop", true, open,
			model.WeightedBackend{Cluster: pool, Picker: picked(model.PickerCall{Last: true})}, true, false, false},
		{"gateways behind a hop", true, open,
			model.WeightedBackend{Cluster: model.ParentCluster("ns", "far", "east")}, true, false, false},
		{"further hops behind a hop", true, open,
			model.WeightedBackend{Cluster: far, Hops: true}, false, false, false},
		{"an exported pool", false, open,
			model.WeightedBackend{Cluster: pool, Picker: picked(model.PickerCall{})}, true, false, true},
		{"an exported pool that spills", false, open,
			model.WeightedBackend{Cluster: pool, Picker: picked(model.PickerCall{Spills: true})}, true, true, true},
	} {
		c.backend.Weight = 1
		b := &builder{hops: c.hops, peers: c.peer, believes: c.peer}
		shares := b.weightedClusters(&model.Forward{Backends: []model.WeightedBackend{c.backend}}, c.calls)
		if got := slices.Contains(shares[0].GetRequestHeadersToRemove(), callerHeader); got != c.removed {
			t.Errorf("%s: removed %t, want %t", c.name, got, c.removed)
		}
		if _, got := shares[0].TypedPerFilterConfig[filterUnmarked]; got != c.written {
			t.Errorf("%s: written %t, want %t", c.name, got, c.written)
		}
	}
}

// A rule with sessions has a route for each backend and routes for new sessions. All must remove
// the caller.
func TestGate_RoutesWithSessionsHideTheCaller(t *testing.T) {
	a, b := model.WeightedBackend{Cluster: named("a"), Weight: 1}, model.WeightedBackend{Cluster: named("b"), Weight: 1}
	r := &model.Route{Name: "r", Match: prefix("/"), Gates: []string{"ns/p"}, ExactUsage: true,
		Action: &model.Action{Forward: &model.Forward{Session: &model.Session{Name: "s", Path: "/"},
			Backends: []model.WeightedBackend{a, b}}}}
	routes := (&builder{}).route(&model.VirtualHost{Host: "*", Routes: []model.Route{*r}}, r)
	if len(routes) < 3 {
		t.Fatalf("%d routes, want at least 3", len(routes))
	}
	for _, route := range routes {
		for _, share := range route.GetRoute().GetWeightedClusters().GetClusters() {
			if !slices.Contains(share.GetRequestHeadersToRemove(), callerHeader) {
				t.Errorf("%s: %s receives the caller, want the header removed", route.Name, share.Name)
			}
		}
	}
}
