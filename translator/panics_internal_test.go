package translator

import (
	"net/http"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// fragile is a translator that panics when it attaches a route that redirects to the host "bug".
type fragile struct {
	*testing.T
	store *store.Store
	*Translator
}

func newFragile(t *testing.T) *fragile {
	f := &fragile{t, store.New(), New(Config{Controller: "penstock.dev/gateway-controller", AnyClass: true})}
	attach := f.tables.attachments.Compute
	f.tables.attachments.Compute = func(r *graph.Reader, key string) (*model.Attachment, bool) {
		a, ok := attach(r, key)
		for _, rule := range a.Rules {
			if rule.Action.Redirect != nil && rule.Action.Redirect.Host == "bug" {
				var nothing *model.Attachment
				nothing.Route = a.Route
			}
		}
		return a, ok
	}
	f.update(
		store.Gateways.Put(&gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gw"},
			Spec: gatewayv1.GatewaySpec{
				GatewayClassName: "penstock", Listeners: []gatewayv1.Listener{
					{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType},
				},
			}}))
	return f
}

func (f *fragile) update(ops ...store.Op) Output {
	f.Helper()
	rev, err := f.store.Apply(ops...)
	if err != nil {
		f.Fatal(err)
	}
	return f.Update(f.store.View(), rev.Changes)
}

func redirect(name, path, to string) store.Op {
	host := gatewayv1.PreciseHostname(to)
	return store.HTTPRoutes.Put(&gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: gatewayv1.HTTPRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{Name: "gw"}}},
			Hostnames:       []gatewayv1.Hostname{"a.example"},
			Rules: []gatewayv1.HTTPRouteRule{{
				Matches: []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Value: &path}}},
				Filters: []gatewayv1.HTTPRouteFilter{
					{Type: gatewayv1.HTTPRouteFilterRequestRedirect,
						RequestRedirect: &gatewayv1.HTTPRequestRedirectFilter{Hostname: &host}},
				},
			}},
		}})
}

// served returns, for each path, the host of the redirect, or the status of the direct response.
func (f *fragile) served() map[string]string {
	f.Helper()
	out := map[string]string{}
	for _, r := range f.Resources("default/gw") {
		if r.Type != resource.RouteConfiguration {
			continue
		}
		var rc routev3.RouteConfiguration
		if err := proto.Unmarshal(r.Body(), &rc); err != nil {
			f.Fatal(err)
		}
		for _, vh := range rc.GetVirtualHosts() {
			for _, route := range vh.GetRoutes() {
				path := route.GetMatch().GetPathSeparatedPrefix() + route.GetMatch().GetPrefix()
				if d := route.GetDirectResponse(); d != nil {
					out[path] = http.StatusText(int(d.GetStatus()))
				} else {
					out[path] = route.GetRedirect().GetHostRedirect()
				}
			}
		}
	}
	return out
}

func TestPanic_HarmsOneRouteAlone(t *testing.T) {
	f := newFragile(t)
	f.update(redirect("a", "/a", "one"), redirect("b", "/b", "one"))
	expect := func(a, b string) {
		t.Helper()
		if got := f.served(); got["/a"] != a || got["/b"] != b {
			t.Errorf("served: %v, want /a %s and /b %s", got, a, b)
		}
	}
	expect("one", "one")
	out := f.update(redirect("a", "/a", "bug"), redirect("b", "/b", "two"))
	expect("one", "two")
	ref := report.Ref{Group: gatewayv1.GroupName, Kind: "HTTPRoute", Namespace: "default", Name: "a"}
	if len(out.Panics) != 1 || !strings.Contains(string(out.Panics[0].Stack), "newFragile") || !out.FailingChanged ||
		len(out.Failing) != 1 || out.Failing[0].Owner != ref {
		t.Fatalf("panics %+v, failing %+v; want one of newFragile, and %v", out.Panics, out.Failing, ref)
	}
	if c := report.Find(out.Failing[0].Conditions, report.Programmed); c == nil || c.Reason != "InternalError" ||
		!strings.Contains(c.Message, "nil pointer") {
		t.Errorf("conditions %+v, want InternalError by a nil pointer", out.Failing[0].Conditions)
	}
	if out := f.update(redirect("b", "/b", "three")); len(out.Panics) != 0 || out.FailingChanged {
		t.Errorf("another route's change: got %+v, want no panic, and no change of failing ones", out)
	}
	expect("one", "three")
	out = f.update(redirect("a", "/a", "two"))
	expect("two", "three")
	if len(out.Panics) != 0 || !out.FailingChanged || len(out.Failing) != 0 {
		t.Errorf("after the bug is gone: got %+v, want no panic, and none failing", out)
	}
}

func TestPanic_WithoutALastValueAnswers500(t *testing.T) {
	f := newFragile(t)
	out := f.update(redirect("a", "/a", "bug"), redirect("b", "/b", "one"))
	if got := f.served(); got["/a"] != "Internal Server Error" || got["/b"] != "one" || len(out.Failing) != 1 {
		t.Fatalf("served: got %v, failing %+v; want /a with 500, /b with one, and one", got, out.Failing)
	}
	f.update(redirect("a", "/c", "bug"))
	if got := f.served(); got["/a"] != "" || got["/c"] != "Internal Server Error" {
		t.Errorf("after a change that panics too: got %v, want /c with 500, and no /a", got)
	}
	out = f.update(redirect("a", "/c", "one"))
	if got := f.served(); got["/c"] != "one" || len(out.Failing) != 0 {
		t.Errorf("after the bug is gone: got %v, failing %+v; want /c with one, and none", got, out.Failing)
	}
}

func TestPanic_GatewayThatLeavesTakesItsRouteAlong(t *testing.T) {
	f := newFragile(t)
	f.update(redirect("a", "/a", "one"))
	f.update(redirect("a", "/a", "bug"))
	same := gatewayv1.NamespacesFromSelector
	f.update(
		store.Gateways.Put(&gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gw"},
			Spec: gatewayv1.GatewaySpec{
				GatewayClassName: "penstock",
				Listeners: []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType,
					AllowedRoutes: &gatewayv1.AllowedRoutes{
						Namespaces: &gatewayv1.RouteNamespaces{
							From: &same, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"no": "such"}},
						},
					}}},
			}}))
	if got := f.served(); len(got) != 0 {
		t.Errorf("a listener that no longer allows the route has %v, want nothing", got)
	}
}

// The encoder panics at a route without an action. Only such routes are replaced, by the former
// route or by 500.
func TestVirtualHost_PanicHarmsOneRouteAlone(t *testing.T) {
	match := func(path string) model.Match { return model.Match{PathKind: model.PathPrefix, Path: path} }
	answer := func(status uint32) *model.Action { return &model.Action{Direct: &model.Direct{Status: status}} }
	ref := func(name string) report.Ref { return report.Ref{Kind: "HTTPRoute", Namespace: "default", Name: name} }
	host := func(routes ...model.Route) *model.VirtualHost {
		return &model.VirtualHost{Chain: "http/80", Host: "a.example", Owners: []report.Ref{ref("a"), ref("b")},
			Routes: routes}
	}
	last := host(model.Route{Name: "a", Owner: ref("a"), Match: match("/a"), Action: answer(201)})
	got := encodeHost(host(
		model.Route{Name: "a", Owner: ref("a"), Match: match("/a")},
		model.Route{Name: "b", Owner: ref("b"), Match: match("/b"), Action: answer(202)},
		model.Route{Name: "c", Owner: ref("a"), Match: match("/c")},
	), last)
	var vh routev3.VirtualHost
	if got.encoded == nil || proto.Unmarshal(got.encoded.Body, &vh) != nil || len(vh.GetRoutes()) != 3 {
		t.Fatalf("got %+v: %v, want 3 routes", got, &vh)
	}
	for i, want := range []uint32{201, 202, 500} {
		if status := vh.GetRoutes()[i].GetDirectResponse().GetStatus(); status != want {
			t.Errorf("route %d answers %d, want %d", i, status, want)
		}
	}
	if len(got.at) != 1 || got.at[0] != ref("a") {
		t.Errorf("at fault: got %v, want %v", got.at, ref("a"))
	}
}
