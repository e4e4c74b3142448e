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

type port struct {
	t          *testing.T
	store      *store.Store
	translator *translator.Translator
}

func newPort(t *testing.T, hosts int) (*port, *resource.Resource) {
	t.Helper()
	s := store.New()
	p := &port{t, s, translator.New(config())}
	ops := []store.Op{store.Gateways.Put(
		&gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gw"}, Spec: gatewayv1.GatewaySpec{
			GatewayClassName: "penstock", Listeners: []gatewayv1.Listener{
				{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType},
			},
		}})}
	for i := range hosts {
		ops = append(ops, redirect(i, 301))
	}
	routes, _ := p.update(ops...)
	return p, routes
}

func redirect(i, status int) store.Op {
	to := gatewayv1.PreciseHostname("elsewhere.example")
	r := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("r", i)}}
	r.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "gw"}}
	r.Spec.Hostnames = []gatewayv1.Hostname{gatewayv1.Hostname(fmt.Sprintf("h%d.example", i))}
	r.Spec.Rules = []gatewayv1.HTTPRouteRule{{Filters: []gatewayv1.HTTPRouteFilter{{
		Type:            gatewayv1.HTTPRouteFilterRequestRedirect,
		RequestRedirect: &gatewayv1.HTTPRequestRedirectFilter{Hostname: &to, StatusCode: &status},
	}}}}
	return store.HTTPRoutes.Put(r)
}

func (p *port) update(ops ...store.Op) (routes *resource.Resource, work string) {
	p.t.Helper()
	rev, err := p.store.Apply(ops...)
	if err != nil {
		p.t.Fatal(err)
	}
	out := p.translator.Update(p.store.View(), rev.Changes)
	if out.Err != nil || len(out.Deltas) != 1 {
		p.t.Fatalf("%v, %d deltas, want 1", out.Err, len(out.Deltas))
	}
	i := slices.IndexFunc(out.Deltas[0].Upserts, func(r *resource.Resource) bool {
		return r.Type == resource.RouteConfiguration
	})
	if i < 0 {
		p.t.Fatalf("want routes, got %+v", out.Deltas[0])
	}
	return out.Deltas[0].Upserts[i], out.Work
}

func TestHTTPRoute_ChangeRecomputesTheSameRowsAmongFewAndMany(t *testing.T) {
	few, _ := newPort(t, 20)
	many, _ := newPort(t, 500)
	_, a := few.update(redirect(7, 302))
	_, b := many.update(redirect(7, 302))
	if a != b {
		t.Errorf("among 20 routes: %s\namong 500: %s\nwant the same", a, b)
	}
}

func TestRouteConfiguration_HostChangeKeepsOtherParts(t *testing.T) {
	const hosts = 200
	p, before := newPort(t, hosts)
	var rc routev3.RouteConfiguration
	if err := proto.Unmarshal(before.Body(), &rc); err != nil || len(rc.VirtualHosts) < hosts {
		t.Fatalf("%d hosts, %v, want at least %d", len(rc.VirtualHosts), err, hosts)
	}
	after, _ := p.update(redirect(7, 302))
	if len(after.Parts) != len(before.Parts) || after.Version == before.Version {
		t.Fatalf("%d parts became %d, version %s became %s; want as many, and another version",
			len(before.Parts), len(after.Parts), before.Version, after.Version)
	}
	fresh := 0
	for i, part := range after.Parts {
		if i == 0 || part == before.Parts[i] { // the first part has the fields outside of hosts
			continue
		}
		fresh++
		if len(part.Body) > len(before.Body())/5 {
			t.Errorf("one host's part is %d of %d bytes, want at most a fifth", len(part.Body), len(before.Body()))
		}
	}
	if fresh != 1 {
		t.Errorf("%d of %d parts are new, want 1", fresh, len(after.Parts))
	}
}
