package xdstest_test

import (
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/server"
	"github.com/penstock-project/penstock/xds/xdstest"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

// rejections are errors made on purpose, with the real Envoy's error details.
var rejections = []struct {
	name string
	make func(w *world) []*resource.Resource
	want []string
}{
	{"an unknown extension", func(w *world) []*resource.Resource { return list(badPolicy(w, "bad")) },
		[]string{
			"cluster(s) bad: cluster: didn't find a registered load balancer factory implementation for cluster: " +
				"'bad' with names from [nope]",
		}},
	{"a host name in a static cluster", func(w *world) []*resource.Resource {
		return list(xdstest.Resource(w, resource.Cluster, "bad", &clusterv3.Cluster{
			Name: "bad", ConnectTimeout: durationpb.New(1e9), LoadAssignment: assignment("bad", "not-an-ip"),
		}))
	}, []string{"cluster(s) bad: malformed IP address: not-an-ip. Consider setting resolver_name"}},
	{"a cluster that fails validation", func(w *world) []*resource.Resource { return list(badTimeout(w, "bad")) },
		[]string{
			"Proto constraint validation failed (ClusterValidationError.ConnectTimeout: value must be greater than 0s)",
		}},
	{"a duplicate filter chain match", func(w *world) []*resource.Resource {
		var l listenerv3.Listener
		if err := proto.Unmarshal(xdstest.Listener(w, "bad", envoytest.FreePort(w), "routes").Body(), &l); err != nil {
			w.Fatal(err)
		}
		twin := proto.Clone(l.GetFilterChains()[0]).(*listenerv3.FilterChain)
		twin.Name = "twin"
		l.FilterChains = append(l.FilterChains, twin)
		return list(xdstest.Resource(w, resource.Listener, "bad", &l))
	},
		[]string{"listener(s) bad: error adding listener",
			"filter chain 'twin' has the same matching rules defined as 'routes'"}},
	{"an invalid regular expression", func(w *world) []*resource.Resource {
		return badListenerOf(w, &routev3.RouteConfiguration{
			VirtualHosts: []*routev3.VirtualHost{host("x", impossible("bad"))},
		})
	}, []string{"missing ): a(b"}},
	{"weights that add up to zero", func(w *world) []*resource.Resource {
		return badListenerOf(w, &routev3.RouteConfiguration{
			VirtualHosts: []*routev3.VirtualHost{host("x", weightless("bad", "/"))},
		})
	}, []string{"Sum of weights in the weighted_cluster must be greater than 0."}},
	{"a duplicate domain", func(w *world) []*resource.Resource {
		twin := host("x", to("bad", "/"))
		twin.Name = "twin"
		return badListenerOf(w, &routev3.RouteConfiguration{
			VirtualHosts: []*routev3.VirtualHost{host("x", to("fine", "/")), twin},
		})
	}, []string{"Only unique values for domains are permitted. Duplicate entry of domain x in route bad"}},
	{"routes that fail validation", func(w *world) []*resource.Resource {
		r := to("bad", "/")
		r.Action = &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 1000}}
		return badListenerOf(w, &routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{host("x", r)}})
	}, []string{"DirectResponseActionValidationError.Status: value must be inside range [200, 600)"}},
	{"a host name among endpoints", func(w *world) []*resource.Resource {
		return list(xdstest.Cluster(w, "bad", 0), badEndpoints(w, "bad"))
	}, []string{"malformed IP address: not-an-ip. Consider setting"}},
	{"an invalid certificate", func(w *world) []*resource.Resource {
		_, key := issue(w.T, 1)
		return secured(w, []byte("not PEM"), key)
	}, []string{"Failed to load certificate chain from <inline>"}},
	{"an invalid key", func(w *world) []*resource.Resource {
		chain, _ := issue(w.T, 1)
		return secured(w, chain, []byte("not PEM"))
	},
		[]string{
			"Failed to load private key from <inline>, Cause: error:0900006e:PEM " +
				"routines:OPENSSL_internal:NO_START_LINE",
		}},
	{"a key of another certificate", func(w *world) []*resource.Resource {
		chain, _ := issue(w.T, 1)
		_, key := issue(w.T, 2)
		return secured(w, chain, key)
	}, []string{"Failed to load private key from <inline>", "KEY_VALUES_MISMATCH"}},
}

func secured(w *world, chain, key []byte) []*resource.Resource {
	return list(tlsListener(w.T, "secure", envoytest.FreePort(w), "routes", "bad"), pair(w.T, "bad", chain, key))
}

func list(r ...*resource.Resource) []*resource.Resource { return r }

func host(name string, routes ...*routev3.Route) *routev3.VirtualHost {
	return &routev3.VirtualHost{Name: name, Domains: []string{name}, Routes: routes}
}

func assignment(name, address string) *endpointv3.ClusterLoadAssignment {
	return &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{
		LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
			Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
				Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80},
			}}},
		}}}},
	}}}
}

func badListenerOf(w *world, rc *routev3.RouteConfiguration) []*resource.Resource {
	rc.Name = "bad"
	return list(xdstest.Listener(w, "other", envoytest.FreePort(w), "bad"),
		xdstest.Resource(w, resource.RouteConfiguration, "bad", rc, cluster("a")))
}

func TestNACK_IsReportedAndGoodResourcesApply(t *testing.T) {
	for _, r := range rejections {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			w := &world{T: t, reports: &reports{}, a: backend(t), b: backend(t), port: envoytest.FreePort(t)}
			w.control = xdstest.Serve(t, server.Config{Reports: w.reports})
			w.control.Commit(w.base())
			w.proxy = startEnvoy(t, w.control, "DELTA_GRPC")
			w.waitServes(w.port, w.a)

			good := list(xdstest.Cluster(w, "b", 0), xdstest.Endpoints(w, "b", w.b), xdstest.Routes(w, "routes", "b"))
			bad := r.make(w)
			w.control.Commit(append(bad, good...), cluster("a"), endpoints("a"))
			w.waitServes(w.port, w.b)
			reported := func() bool {
				for _, s := range r.want {
					if !strings.Contains(w.reports.message("bad"), s) {
						return false
					}
				}
				return true
			}
			w.wait("a report with the error detail", reported)

			// Another control plane lacks the good cluster that came with the rejected resource, so
			// the proxy must remove it.
			w.control.Stop()
			next := cache.New(cache.Config{})
			next.Commit(cache.Batch{Gateway: xdstest.Gateway, Upserts: append(w.base(), bad...)})
			next.SetReady()
			w.reports.Rejected("", "", nil)
			w.control.Start(server.Config{Cache: next, Reports: w.reports})
			w.waitServes(w.port, w.a)
			// Envoy does not validate the same secret bytes again.
			if bad[len(bad)-1].Type != resource.Secret {
				w.wait("the report again", reported)
			}
			w.wait("the good cluster removed", func() bool {
				return !slices.Contains(w.proxy.names(resource.Cluster), "b")
			})
		})
	}
}
