package translator_test

import (
	"slices"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// Connections on an earlier release's filter chain get current routes until they drain. So these
// routes must have the lock of a new policy, too.
func TestAccessPolicy_LocksRoutesOfEarlierFilterChains(t *testing.T) {
	w := newGateWorld(t)
	d := w.apply(store.AccessPolicies.Put(gate("p", "Gateway gw"))).Deltas[0]
	read := func(name string) *routev3.RouteConfiguration {
		all := d.WithEarlier().Upserts
		i := slices.IndexFunc(all, func(r *resource.Resource) bool {
			return r.Ref == resource.Ref{Type: resource.RouteConfiguration, Name: name}
		})
		if i < 0 {
			t.Fatalf("no %s in %v", name, all)
		}
		out := &routev3.RouteConfiguration{}
		if err := proto.Unmarshal(all[i].Body(), out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	earlier, want := read("http/80"), read(model.RoutesName("http/80"))
	if earlier.GetName() != "http/80" {
		t.Error("its name is", earlier.GetName())
	}
	if want.Name = "http/80"; !cmp.Equal(earlier, want, protocmp.Transform()) {
		t.Error(cmp.Diff(earlier, want, protocmp.Transform()))
	}
	for _, vh := range earlier.GetVirtualHosts() {
		if got := w.policies(vh.GetTypedPerFilterConfig(), vh.GetRoutes()[0].GetTypedPerFilterConfig()); got !=
			"default/p" {
			t.Errorf("%s is locked by %q, want default/p", vh.GetName(), got)
		}
	}
	d = w.apply(store.Gateways.Delete("default/gw")).Deltas[0]
	for _, name := range []string{"http/80", model.RoutesName("http/80")} {
		if !slices.Contains(d.WithEarlier().Removes, resource.Ref{Type: resource.RouteConfiguration, Name: name}) {
			t.Errorf("%s stays, want it removed: %v", name, d.WithEarlier().Removes)
		}
	}
}
