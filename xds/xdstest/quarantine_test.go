package xdstest_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/server"
	"github.com/penstock-project/penstock/xds/xdstest"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

func hosts(t testing.TB, name string, list map[string][]*routev3.Route) *resource.Resource {
	part := func(rc *routev3.RouteConfiguration, refs []resource.Ref, owners []report.Ref) *resource.Part {
		body, err := resource.Marshal(rc)
		if err != nil {
			t.Fatal(err)
		}
		return resource.NewPart(body, refs, owners)
	}
	parts := []*resource.Part{part(&routev3.RouteConfiguration{Name: name, IgnorePortInHostMatching: true}, nil, nil)}
	for _, host := range slices.Sorted(maps.Keys(list)) {
		var owners []report.Ref
		for _, r := range list[host] {
			owners = append(owners,
				report.Ref{Kind: "HTTPRoute", Namespace: "default", Name: strings.Split(r.GetName(), "/")[2]})
		}
		parts = append(parts, part(&routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{
			{Name: host, Domains: []string{host}, Routes: list[host]},
		}}, []resource.Ref{cluster("a")}, owners))
	}
	return resource.FromParts(resource.RouteConfiguration, name, parts...)
}

func to(owner, prefix string) *routev3.Route {
	return &routev3.Route{
		Name:  "HTTPRoute/default/" + owner + "/0",
		Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: prefix}},
		Action: &routev3.Route_Route{
			Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: "a"}},
		},
	}
}

func weightless(owner, prefix string) *routev3.Route {
	r := to(owner, prefix)
	r.Action = &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_WeightedClusters{
		WeightedClusters: &routev3.WeightedCluster{
			Clusters: []*routev3.WeightedCluster_ClusterWeight{{Name: "a", Weight: wrapperspb.UInt32(0)}},
		},
	}}}
	return r
}

// Envoy rejects this match, even in a route that answers 500.
func impossible(owner string) *routev3.Route {
	r := to(owner, "")
	r.Match = &routev3.RouteMatch{
		PathSpecifier: &routev3.RouteMatch_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: "a(b"}},
	}
	return r
}

func status(t testing.TB, port uint32, host, path string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func TestNACK_RejectedRouteAnswers500AndOthersApply(t *testing.T) {
	for _, variant := range []string{"DELTA_GRPC", "GRPC"} {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			w := &world{T: t, reports: &reports{}, a: backend(t), port: envoytest.FreePort(t)}
			w.control = xdstest.Serve(t, server.Config{Reports: w.reports})
			list := map[string][]*routev3.Route{}
			for i := range 20 {
				h := fmt.Sprintf("h%d.com", i)
				list[h] = []*routev3.Route{to("r"+fmt.Sprint(i), "/")}
			}
			base := append(w.base()[:3], hosts(t, "routes", list))
			w.control.Commit(base)
			w.proxy = startEnvoy(t, w.control, variant)
			expect := func(host, path string, want int) {
				t.Helper()
				w.wait(fmt.Sprintf("%d for %s%s", want, host, path),
					func() bool { return status(t, w.port, host, path) == want })
			}
			expect("h0.com", "/", 200)

			// Three routes are rejected: two in hosts with other routes, and one in a new host.
			list["h3.com"] = []*routev3.Route{to("new", "/new"), weightless("bad", "/bad"), to("r3", "/")}
			list["h7.com"] = []*routev3.Route{impossible("worse"), to("r7", "/")}
			list["n1.com"] = []*routev3.Route{weightless("bad2", "/")}
			list["n2.com"] = []*routev3.Route{to("fine", "/")}
			w.control.Commit([]*resource.Resource{hosts(t, "routes", list)})
			expect("h3.com", "/bad", 500)
			expect("n1.com", "/", 500)
			expect("n2.com", "/", 200)
			w.wait("a report for each owner", func() bool {
				return strings.Contains(w.reports.message("bad"), "Sum of weights") &&
					strings.Contains(w.reports.message("bad2"), "Sum of weights") &&
					strings.Contains(w.reports.message("worse"), "missing )")
			})
			for _, at := range [][2]string{{"h0.com", "/"}, {"h3.com", "/new"}, {"h3.com", "/"}, {"h7.com", "/"}} {
				if got := status(t, w.port, at[0], at[1]); got != 200 {
					t.Errorf("%s%s answers %d, want 200", at[0], at[1], got)
				}
			}
			for _, owner := range []string{"r0", "r3", "new", "fine"} {
				if message := w.reports.message(owner); message != "" {
					t.Errorf("%s has a report of the rejections of others, want none: %s", owner, message)
				}
			}

			list["n3.com"] = []*routev3.Route{to("late", "/")}
			w.control.Commit([]*resource.Resource{hosts(t, "routes", list)})
			expect("n3.com", "/", 200)
			expect("h3.com", "/bad", 500)
			list["h3.com"][1], list["n1.com"][0], list["h7.com"] = to("bad", "/bad"), to("bad2", "/"),
				list["h7.com"][1:]
			w.control.Commit([]*resource.Resource{hosts(t, "routes", list)})
			expect("h3.com", "/bad", 200)
			expect("n1.com", "/", 200)
			w.wait("the reports are cleared", func() bool {
				return w.reports.message("bad") == "" && w.reports.message("worse") == ""
			})
		})
	}
}
