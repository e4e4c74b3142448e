package xdstest_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/server"
	"github.com/penstock-project/penstock/xds/xdstest"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

type world struct {
	*testing.T
	control *xdstest.Control
	proxy   subject
	reports *reports
	a, b    uint32 // ports of backends
	port    uint32
}

// base is the cluster a, the routes to it, and the listener web.
func (w *world) base() []*resource.Resource {
	return []*resource.Resource{
		xdstest.Cluster(w, "a", 0), xdstest.Endpoints(w, "a", w.a),
		xdstest.Listener(w, "web", w.port, "routes"), xdstest.Routes(w, "routes", "a"),
	}
}

func (w *world) wait(what string, ok func() bool) {
	w.Helper()
	poll.Until(w, what, ok)
}

func (w *world) waitServes(port, backend uint32) {
	w.Helper()
	w.wait("requests reach the backend", func() bool { return w.proxy.serves(port) == backend })
}

func (w *world) waitNames(t resource.Type, want ...string) {
	w.Helper()
	w.wait(t.String()+" "+strings.Join(want, ","), func() bool { return slices.Equal(w.proxy.names(t), want) })
}

func cluster(name string) resource.Ref { return resource.Ref{Type: resource.Cluster, Name: name} }
func endpoints(name string) resource.Ref {
	return resource.Ref{Type: resource.Endpoints, Name: name}
}
func listener(name string) resource.Ref { return resource.Ref{Type: resource.Listener, Name: name} }
func routes(name string) resource.Ref {
	return resource.Ref{Type: resource.RouteConfiguration, Name: name}
}

type reports struct {
	mu   sync.Mutex
	last []report.Report
}

func (r *reports) Rejected(_, _ string, list []report.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = list
}

func (r *reports) message(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rep := range r.last {
		if rep.Owner.Name == name {
			return rep.Conditions[0].Message
		}
	}
	return ""
}

// Each scenario runs with the fake and the real Envoy, in both variants of the protocol.
var scenarios = []struct {
	name string
	run  func(*world)
}{
	{"a route moves to a cluster that replaces the old one", func(w *world) {
		w.control.Commit([]*resource.Resource{
			xdstest.Cluster(w, "b", 0), xdstest.Endpoints(w, "b", w.b), xdstest.Routes(w, "routes", "b"),
		}, cluster("a"), endpoints("a"))
		w.waitServes(w.port, w.b)
		w.waitNames(resource.Cluster, "b")
	}},
	{"an edited cluster becomes warm again although its endpoints did not change", func(w *world) {
		w.control.Commit([]*resource.Resource{xdstest.Cluster(w, "a", 1)})
		w.control.WaitAcked(cluster("a"))
		w.waitServes(w.port, w.a)
	}},
	{"a cluster that shares its endpoints with another becomes warm", func(w *world) {
		w.control.Commit([]*resource.Resource{xdstest.SharedCluster(w, "twin", "a", 0),
			xdstest.Routes(w, "routes", "twin")}, cluster("a"))
		w.waitNames(resource.Cluster, "twin")
		w.waitServes(w.port, w.a)
	}},
	{"a cluster without endpoints delays no other", func(w *world) {
		w.control.Commit([]*resource.Resource{xdstest.Cluster(w, "none", 0), xdstest.Cluster(w, "b", 0),
			xdstest.Endpoints(w, "b", w.b), xdstest.Routes(w, "routes", "b")})
		w.waitServes(w.port, w.b)
		w.control.WaitAcked(cluster("none"))
	}},
	{"endpoints change alone", func(w *world) {
		w.control.Commit([]*resource.Resource{xdstest.Endpoints(w, "a", w.b)})
		w.control.WaitAcked(endpoints("a"))
		w.waitServes(w.port, w.b)
	}},
	{"removed endpoints get no requests", func(w *world) {
		w.control.Commit(nil, endpoints("a"))
		w.waitServes(w.port, 0)
		w.control.Commit([]*resource.Resource{xdstest.Endpoints(w, "a", w.b)})
		w.waitServes(w.port, w.b)
	}},
	{"a listener whose routes do not exist does not stop the others", func(w *world) {
		other := envoytest.FreePort(w)
		w.control.Commit([]*resource.Resource{xdstest.Listener(w, "lost", other, "nowhere"),
			xdstest.Endpoints(w, "a", w.b)})
		w.control.WaitAcked(listener("lost"), endpoints("a"))
		w.waitServes(w.port, w.b)
		w.control.Commit([]*resource.Resource{xdstest.Routes(w, "nowhere", "a")})
		w.waitServes(other, w.b)
	}},
	{"a listener is renamed on its port", func(w *world) {
		w.control.Commit([]*resource.Resource{xdstest.Listener(w, "renamed", w.port, "routes")}, listener("web"))
		w.waitNames(resource.Listener, "renamed")
		w.waitServes(w.port, w.a)
	}},
	{"a pool begins to spill through a hop, to another one, and stops", func(w *world) {
		hops := func(hops map[string]string, more ...*resource.Resource) []*resource.Resource {
			l, rc := xdstest.Hops(w, hops)
			return append(more, l, rc)
		}
		w.control.Commit(hops(map[string]string{"to-b": "b"}, xdstest.Cluster(w, "b", 0),
			xdstest.Endpoints(w, "b", w.b), xdstest.EndpointsWithHops(w, "a", []string{"to-b"})))
		w.waitServes(w.port, w.b)
		w.control.Commit(hops(map[string]string{"to-c": "c"}, xdstest.Cluster(w, "c", 0),
			xdstest.Endpoints(w, "c", w.a), xdstest.EndpointsWithHops(w, "a", []string{"to-c"})),
			cluster("b"), endpoints("b"))
		w.waitServes(w.port, w.a)
		w.waitNames(resource.Cluster, "a", "c")
		// The proxy has ACKed the routes without the hop to-b.
		w.control.WaitAcked(routes(xdstest.HopListener))
		w.control.Commit([]*resource.Resource{xdstest.Endpoints(w, "a", w.a)},
			listener(xdstest.HopListener), routes(xdstest.HopListener), cluster("c"), endpoints("c"))
		w.waitServes(w.port, w.a)
		w.waitNames(resource.Listener, "web")
		w.waitNames(resource.Cluster, "a")
	}},
	{"a hop that Envoy rejects does not stop another one", func(w *world) {
		l, rc := xdstest.Hops(w, map[string]string{"to-b": "b"})
		bad := xdstest.Resource(w, resource.RouteConfiguration, xdstest.HopListener, withBadHop(w, rc),
			append(slices.Clone(rc.Refs), resource.Ref{Type: resource.VirtualHost, Name: "bad"})...)
		w.control.Commit([]*resource.Resource{l, bad, xdstest.Cluster(w, "b", 0), xdstest.Endpoints(w, "b", w.b),
			xdstest.EndpointsWithHops(w, "a", []string{"to-b"})})
		w.waitServes(w.port, w.b)
		w.wait("a report", func() bool { return strings.Contains(w.reports.message(xdstest.HopListener), "missing )") })
		w.control.Commit([]*resource.Resource{rc})
		w.wait("the report is cleared", func() bool { return w.reports.message(xdstest.HopListener) == "" })
		w.waitServes(w.port, w.b)
	}},
	{"everything is replaced at once", func(w *world) {
		other := envoytest.FreePort(w)
		w.control.Commit([]*resource.Resource{
			xdstest.Cluster(w, "b", 0), xdstest.Endpoints(w, "b", w.b),
			xdstest.Listener(w, "other", other, "other-routes"), xdstest.Routes(w, "other-routes", "b"),
		}, cluster("a"), endpoints("a"), listener("web"), routes("routes"))
		w.waitServes(other, w.b)
		w.waitNames(resource.Listener, "other")
		w.waitNames(resource.Cluster, "b")
	}},
	{"a cluster that Envoy rejects does not stop a good one", func(w *world) {
		w.control.Commit([]*resource.Resource{badPolicy(w, "bad"), xdstest.Cluster(w, "b", 0),
			xdstest.Endpoints(w, "b", w.b), xdstest.Routes(w, "routes", "b")})
		w.waitServes(w.port, w.b)
		w.control.WaitAcked(cluster("b"))
		w.wait("a report", func() bool { return strings.Contains(w.reports.message("bad"), "nope") })
		w.control.Commit([]*resource.Resource{xdstest.Cluster(w, "bad", 0)})
		w.control.WaitAcked(cluster("bad"))
		w.wait("the report is cleared", func() bool { return w.reports.message("bad") == "" })
		w.waitNames(resource.Cluster, "a", "b", "bad")
	}},
	{"a cluster that fails validation does not stop a good one", func(w *world) {
		w.control.Commit([]*resource.Resource{badTimeout(w, "bad"), xdstest.Cluster(w, "b", 0),
			xdstest.Endpoints(w, "b", w.b), xdstest.Routes(w, "routes", "b")})
		w.waitServes(w.port, w.b)
		w.control.WaitAcked(cluster("b"))
		w.wait("a report", func() bool { return strings.Contains(w.reports.message("bad"), "greater than 0s") })
	}},
	{"routes that Envoy rejects keep their last good version, and the clusters that it needs", func(w *world) {
		other := envoytest.FreePort(w)
		w.control.Commit([]*resource.Resource{xdstest.Listener(w, "other", other, "fine"),
			xdstest.Routes(w, "fine", "a")})
		w.waitServes(other, w.a)
		w.control.Commit([]*resource.Resource{
			xdstest.Cluster(w, "b", 0), xdstest.Endpoints(w, "b", w.b), badRoutes(w, "routes", "b"),
			xdstest.Routes(w, "fine", "b"),
		}, cluster("a"))
		w.waitServes(other, w.b)
		w.wait("a report", func() bool { return strings.Contains(w.reports.message("routes"), "missing )") })
		if got := w.proxy.serves(w.port); got != w.a {
			w.Errorf("the last good routes do not serve: got %d, want %d", got, w.a)
		}
		w.control.Commit([]*resource.Resource{xdstest.Routes(w, "routes", "b")})
		w.waitServes(w.port, w.b)
		w.waitNames(resource.Cluster, "b")
		w.wait("the report is cleared", func() bool { return w.reports.message("routes") == "" })
	}},
	{"endpoints that Envoy rejects do not stop others in the same response", func(w *world) {
		w.control.Commit([]*resource.Resource{xdstest.Cluster(w, "b", 0), xdstest.Endpoints(w, "b", w.a),
			xdstest.Cluster(w, "c", 0), xdstest.Endpoints(w, "c", w.a)})
		w.control.WaitAcked(cluster("b"), cluster("c"), endpoints("b"), endpoints("c"))
		w.control.Commit([]*resource.Resource{badEndpoints(w, "b"), xdstest.Endpoints(w, "a", w.b),
			xdstest.Endpoints(w, "c", w.b)})
		w.control.WaitAcked(endpoints("a"), endpoints("c"))
		w.waitServes(w.port, w.b)
		w.wait("a report", func() bool { return strings.Contains(w.reports.message("b"), "malformed IP address") })
	}},
	{"a listener that Envoy rejects does not stop others", func(w *world) {
		other := envoytest.FreePort(w)
		bad := xdstest.Resource(w, resource.Listener, "bad", badListener)
		w.control.Commit([]*resource.Resource{bad, xdstest.Listener(w, "other", other, "routes")})
		w.waitServes(other, w.a)
		w.control.WaitAcked(listener("other"))
		w.wait("a report", func() bool { return strings.Contains(w.reports.message("bad"), "address is necessary") })
		w.control.Commit(nil, listener("bad"))
		w.wait("the report is cleared", func() bool { return w.reports.message("bad") == "" })
	}},
	{"resources removed while the control plane was stopped are removed, and nothing is resent", func(w *world) {
		w.control.Commit([]*resource.Resource{xdstest.Cluster(w, "b", 0), xdstest.Endpoints(w, "b", w.b)})
		w.control.WaitAcked(cluster("b"), endpoints("b"))
		w.control.Stop()
		next := cache.New(cache.Config{})
		next.Commit(cache.Batch{Gateway: xdstest.Gateway, Upserts: w.base()})
		next.SetReady()
		w.control.Start(server.Config{Cache: next})
		w.proxy.reconnect(w.control.Address)
		w.waitNames(resource.Cluster, "a")
		w.waitServes(w.port, w.a)
	}},
}

func withBadHop(t testing.TB, hops *resource.Resource) *routev3.RouteConfiguration {
	rc := &routev3.RouteConfiguration{}
	bad := &routev3.RouteConfiguration{}
	if err := errors.Join(proto.Unmarshal(hops.Body(), rc),
		proto.Unmarshal(badRoutes(t, "bad", "b").Body(), bad)); err != nil {
		t.Fatal(err)
	}
	host := bad.VirtualHosts[0]
	host.Name, host.Domains = "bad", []string{"bad"}
	rc.VirtualHosts = append(rc.VirtualHosts, host)
	return rc
}

func badPolicy(t testing.TB, name string) *resource.Resource {
	return xdstest.Resource(t, resource.Cluster, name, &clusterv3.Cluster{
		Name: name, ConnectTimeout: durationpb.New(1e9),
		LoadBalancingPolicy: &clusterv3.LoadBalancingPolicy{Policies: []*clusterv3.LoadBalancingPolicy_Policy{{
			TypedExtensionConfig: &corev3.TypedExtensionConfig{
				Name: "nope", TypedConfig: &anypb.Any{TypeUrl: "type.googleapis.com/google.protobuf.Empty"},
			},
		}}},
	})
}

func badTimeout(t testing.TB, name string) *resource.Resource {
	return xdstest.Resource(t, resource.Cluster, name,
		&clusterv3.Cluster{Name: name, ConnectTimeout: durationpb.New(0)})
}

func badRoutes(t testing.TB, name, cluster string) *resource.Resource {
	return xdstest.RoutesOf(t, name, &routev3.Route{
		Match: &routev3.RouteMatch{
			PathSpecifier: &routev3.RouteMatch_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: "a(b"}},
		},
		Action: &routev3.Route_Route{
			Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster}},
		},
	}, cluster)
}

func TestMakeBeforeBreak_LosesNoRequest(t *testing.T) {
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			for _, sc := range scenarios {
				t.Run(sc.name, func(t *testing.T) {
					t.Parallel()
					w := &world{T: t, reports: &reports{}, a: backend(t), b: backend(t), port: envoytest.FreePort(t)}
					w.control = xdstest.Serve(t, server.Config{Reports: w.reports})
					w.control.Commit(w.base())
					w.proxy = s.start(t, w.control)
					w.waitServes(w.port, w.a)
					w.control.WaitAcked(routes("routes"), listener("web"), cluster("a"), endpoints("a"))
					sc.run(w)
				})
			}
		})
	}
}

func badEndpoints(t testing.TB, service string) *resource.Resource {
	return xdstest.Resource(t, resource.Endpoints, service, &endpointv3.ClusterLoadAssignment{
		ClusterName: service,
		Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: &corev3.Address{
				Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
					Address: "not-an-ip", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80},
				}},
			}}},
		}}}},
	})
}

var badListener = &listenerv3.Listener{Name: "bad"}
