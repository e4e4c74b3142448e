package translator

import (
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// If a bug prevents the encoding of a listener's routes, Envoys keep the old listener. It must
// still be removed when the Gateway no longer has its port.
func TestListener_UnencodableRoutesKeepTheOldUntilItGoes(t *testing.T) {
	s := store.New()
	tr, broken := New(Config{Controller: "penstock.dev/gateway-controller", AnyClass: true}), false
	encode := tr.tables.routeConfigurations.Compute
	tr.tables.routeConfigurations.Compute = func(r *graph.Reader, key chainKey) (encoded, bool) {
		e, ok := encode(r, key)
		if ok && broken {
			return encoded{err: errors.New("a bug")}, true
		}
		return e, ok
	}
	update := func(port int32, host gatewayv1.Hostname) Delta {
		t.Helper()
		gw := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gw"},
			Spec: gatewayv1.GatewaySpec{
				GatewayClassName: "penstock", Listeners: []gatewayv1.Listener{
					{Name: "http", Port: port, Protocol: gatewayv1.HTTPProtocolType, Hostname: &host},
				},
			}}
		rev, err := s.Apply(store.Gateways.Put(gw))
		if err != nil {
			t.Fatal(err)
		}
		out := tr.Update(s.View(), rev.Changes)
		if len(out.Deltas) != 1 || !broken && out.Err != nil {
			t.Fatalf("got %+v, want one delta, and no error unless broken", out)
		}
		return out.Deltas[0]
	}
	routes := func(port uint16) resource.Ref {
		return resource.Ref{Type: resource.RouteConfiguration, Name: model.RoutesName(model.ChainName(false, port, ""))}
	}
	has := func(d Delta, port uint16) bool {
		return slices.ContainsFunc(d.Upserts, func(r *resource.Resource) bool { return r.Ref == routes(port) })
	}
	if d := update(80, "a.example"); !has(d, 80) {
		t.Fatalf("got %+v, want the routes of port 80", d)
	}
	broken = true
	for _, host := range []gatewayv1.Hostname{"b.example", "c.example"} {
		if d := update(80, host); has(d, 80) || slices.Contains(d.Removes, routes(80)) {
			t.Errorf("got %+v, want the routes of port 80 to stay", d)
		}
	}
	broken = false
	if d := update(81, "c.example"); !slices.Contains(d.Removes, routes(80)) || !has(d, 81) || len(tr.kept) > 0 {
		t.Errorf("got %+v, want the routes of port 80 removed, and of 81 added", d)
	}
}
