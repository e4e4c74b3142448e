package translator_test

import (
	"fmt"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// watched returns, for each route of a Gateway, the policies in its configuration of the filter
// watch.
func (w *gateWorld) watched(gateway string) map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for _, r := range w.translator.Resources("default/" + gateway) {
		if r.Type != resource.RouteConfiguration || r.Name == model.HopListener {
			continue
		}
		var rc routev3.RouteConfiguration
		if err := proto.Unmarshal(r.Body(), &rc); err != nil {
			w.t.Fatal(err)
		}
		for _, vh := range rc.GetVirtualHosts() {
			for _, route := range vh.GetRoutes() {
				config := route.GetTypedPerFilterConfig()["watch"]
				if config == nil {
					config = vh.GetTypedPerFilterConfig()["watch"]
				}
				var call extprocv3.ExtProcPerRoute
				if config != nil {
					if err := config.UnmarshalTo(&call); err != nil {
						w.t.Fatal(err)
					}
				}
				name := fmt.Sprint(model.ChainOfRoutes(rc.GetName()), " ", hash.ReplaceAllString(route.GetName(), ""))
				out[name] = ""
				for _, meta := range call.GetOverrides().GetGrpcService().GetInitialMetadata() {
					if meta.GetKey() == "x-penstock-policies" {
						out[name] = meta.GetValue()
					}
				}
			}
		}
	}
	return out
}

// With revoke: Immediately, all routes behind the policy watch their requests, for the same
// policies as their gates. Only routes change, so no listener drains.
func TestAccessPolicy_RevokeWatchesTheRoutesBelow(t *testing.T) {
	w := newGateWorld(t)
	atOnce := gate("p", "InferencePool zebra")
	w.apply(store.AccessPolicies.Put(gate("all", "Gateway gw", "Gateway other")), store.AccessPolicies.Put(atOnce))
	for route, policies := range w.watched("gw") {
		if policies != "" {
			t.Errorf("without the field, %s watches for %s, want none", route, policies)
		}
	}
	changed := *atOnce
	changed.Spec.Revoke = v1alpha1.RevokeImmediately
	out := w.apply(store.AccessPolicies.Put(&changed))
	for _, d := range out.Deltas {
		for _, r := range d.Upserts {
			if r.Type != resource.RouteConfiguration {
				t.Error("changes", r.Ref)
			}
		}
		if len(d.Removes) > 0 {
			t.Error("removes", d.Removes)
		}
	}
	if got := w.watched("gw")["http/80 HTTPRoute/default/r"]; got != "default/all,default/p" {
		t.Errorf("the route watches for %q, want %q", got, "default/all,default/p")
	}
	for route, policies := range w.watched("other") {
		if policies != "" {
			t.Errorf("%s is not below the policy, and watches for %s, want none", route, policies)
		}
	}
	w.apply(store.AccessPolicies.Put(atOnce))
	if got := w.watched("gw")["http/80 HTTPRoute/default/r"]; got != "" {
		t.Errorf("after the field is removed, the route watches for %q, want none", got)
	}
}
