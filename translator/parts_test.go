package translator_test

import (
	"fmt"
	"slices"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/xds/resource"
)

// What makes a change of one host among thousands cheap: all other parts of the route configuration are those of the version
// before, not copies of them.
func TestOneHostsChangeLeavesTheOtherPartsOfARouteConfigurationAsTheyAre(t *testing.T) {
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	const hosts = 200
	route := func(i, status int) store.Op {
		r := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("r", i)}}
		r.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "gw"}}
		r.Spec.Hostnames = []gatewayv1.Hostname{gatewayv1.Hostname(fmt.Sprintf("h%d.example", i))}
		to := gatewayv1.PreciseHostname("elsewhere.example")
		r.Spec.Rules = []gatewayv1.HTTPRouteRule{{Filters: []gatewayv1.HTTPRouteFilter{{
			Type: gatewayv1.HTTPRouteFilterRequestRedirect, RequestRedirect: &gatewayv1.HTTPRequestRedirectFilter{Hostname: &to, StatusCode: &status},
		}}}}
		return store.HTTPRoutes.Put(r)
	}
	ops := []store.Op{store.Gateways.Put(&gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gw"}, Spec: gatewayv1.GatewaySpec{
		GatewayClassName: "penstock", Listeners: []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}},
	}})}
	for i := range hosts {
		ops = append(ops, route(i, 301))
	}
	tr := translator.New(config())
	update := func(ops ...store.Op) *resource.Resource {
		t.Helper()
		rev, err := s.Apply(ops...)
		if err != nil {
			t.Fatal(err)
		}
		out := tr.Update(s.View(), rev.Changes)
		if out.Err != nil || len(out.Deltas) != 1 {
			t.Fatalf("%v, %d deltas", out.Err, len(out.Deltas))
		}
		i := slices.IndexFunc(out.Deltas[0].Upserts, func(r *resource.Resource) bool { return r.Type == resource.RouteConfiguration })
		return out.Deltas[0].Upserts[i]
	}
	before := update(ops...)
	var rc routev3.RouteConfiguration
	if err := proto.Unmarshal(before.Body(), &rc); err != nil || len(rc.VirtualHosts) < hosts {
		t.Fatalf("%d hosts, %v", len(rc.VirtualHosts), err)
	}
	after := update(route(7, 302))
	fresh := 0
	for i, p := range after.Parts[1:] { // the first has what is not of hosts
		if p != before.Parts[1+i] {
			fresh++
			if len(p.Body) > len(before.Body())/5 {
				t.Errorf("one host's part is %d of %d bytes", len(p.Body), len(before.Body()))
			}
		}
	}
	if fresh != 1 || len(after.Parts) != len(before.Parts) || after.Version == before.Version {
		t.Errorf("%d of %d parts are new", fresh, len(after.Parts))
	}
}
