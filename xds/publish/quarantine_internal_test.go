package publish

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

// strict simulates a proxy's validation. It rejects cluster "bad", path "/bad", and virtual hosts
// without a domain.
func strict(rc *routev3.RouteConfiguration) bool {
	for _, vh := range rc.GetVirtualHosts() {
		if len(vh.GetDomains()) == 0 {
			return false
		}
		for _, r := range vh.GetRoutes() {
			if r.GetRoute().GetCluster() == "bad" || r.GetMatch().GetPath() == "/bad" {
				return false
			}
		}
	}
	return true
}

func entryOf(t *testing.T, rc *routev3.RouteConfiguration) *cache.Entry {
	t.Helper()
	r, err := resource.New(resource.RouteConfiguration, rc.GetName(), rc, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &cache.Entry{Resource: r, Slot: &cache.Slot{Ref: r.Ref}}
}

func TestQuarantine_DisablesOnlyRejectedRoutes(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		rc := func(rejected int) *routev3.RouteConfiguration {
			out := &routev3.RouteConfiguration{Name: "routes"}
			for h := range 1 + r.IntN(12) {
				vh := &routev3.VirtualHost{Name: fmt.Sprint("h", h), Domains: []string{fmt.Sprint("h", h)}}
				for i := range r.IntN(6) {
					route := &routev3.Route{Name: fmt.Sprint("r", i),
						Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: fmt.Sprint("/", i)}}}
					to := "good" + fmt.Sprint(r.IntN(2))
					switch n := r.IntN(100); {
					case n < rejected:
						to = "bad"
					case n < rejected*3/2:
						route.Match = &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: "/bad"}}
					}
					route.Action = &routev3.Route_Route{
						Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: to}},
					}
					vh.Routes = append(vh.Routes, route)
				}
				if r.IntN(200) < rejected {
					vh.Domains = nil
				}
				out.VirtualHosts = append(out.VirtualHosts, vh)
			}
			return out
		}
		before, after := rc(0), rc(4)
		if strict(after) {
			continue
		}
		q := newQuarantine(entryOf(t, after), entryOf(t, before), "rejected")
		has := before
		for tries := 0; !q.done(); tries++ {
			var sent routev3.RouteConfiguration
			if err := proto.Unmarshal(q.entry.Body(), &sent); err != nil || tries > 500 {
				t.Fatalf("seed %d: %d tries, %v, want at most 500", seed, tries, err)
			}
			ok := strict(&sent)
			if ok {
				for _, missing := range lost(before, after, &sent) {
					t.Errorf("seed %d: %s serves neither as before nor as it should, want one of them", seed, missing)
				}
				has = &sent
			}
			q.answer(ok, "rejected")
		}
		var faults []string
		for _, f := range q.found {
			faults = append(faults, f.Host+" "+f.Route)
		}
		if want := rejectedIn(after); !slices.Equal(faults, want) || q.unsplittable {
			t.Errorf("seed %d: found %q, want %q", seed, faults, want)
		}
		for _, p := range lost(nil, after, has) {
			if !slices.ContainsFunc(faults, func(f string) bool {
				return f == p || strings.HasSuffix(f, " ") && strings.HasPrefix(p, f)
			}) {
				t.Errorf("seed %d: %s is good and not in force", seed, p)
			}
		}
	}
}

func rejectedIn(rc *routev3.RouteConfiguration) (out []string) {
	for _, vh := range rc.GetVirtualHosts() {
		one := &routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{{Domains: vh.GetDomains()}}}
		if !strict(one) {
			out = append(out, vh.GetName()+" ")
			continue
		}
		for _, r := range vh.GetRoutes() {
			one.VirtualHosts[0].Routes = []*routev3.Route{r}
			if !strict(one) {
				out = append(out, vh.GetName()+" "+r.GetName())
			}
		}
	}
	return out
}

// lost lists routes of which neither the wanted nor the previous version is in force, except
// rejected routes.
func lost(before, after, has *routev3.RouteConfiguration) (out []string) {
	now := index(has)
	earlier := index(before)
	rejected := rejectedIn(after)
	for name, r := range index(after) {
		old := earlier[name]
		switch {
		case now[name] != nil && (proto.Equal(now[name], r) || proto.Equal(now[name], old)):
		case before != nil && old == nil:
		case before != nil && slices.ContainsFunc(rejected,
			func(b string) bool { return b == name || strings.HasPrefix(name, b) && strings.HasSuffix(b, " ") }):
		default:
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func index(rc *routev3.RouteConfiguration) map[string]*routev3.Route {
	out := map[string]*routev3.Route{}
	for _, vh := range rc.GetVirtualHosts() {
		for _, r := range vh.GetRoutes() {
			out[vh.GetName()+" "+r.GetName()] = r
		}
	}
	return out
}

// Variants may have megabytes, so a thousand proxies must share them.
func TestQuarantine_ProxiesShareVariants(t *testing.T) {
	rc := func(to string) *routev3.RouteConfiguration {
		route := &routev3.Route{Name: "r", Match: &routev3.RouteMatch{
			PathSpecifier: &routev3.RouteMatch_Path{Path: "/"},
		}, Action: &routev3.Route_Route{
			Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: to}}}}
		return &routev3.RouteConfiguration{Name: "routes",
			VirtualHosts: []*routev3.VirtualHost{{Name: "h", Domains: []string{"h"}, Routes: []*routev3.Route{route}}}}
	}
	before, after := entryOf(t, rc("good")), entryOf(t, rc("bad"))
	var has []*resource.Part
	for range 2 {
		q := newQuarantine(after, before, "rejected")
		for !q.done() {
			has = append(has, q.entry.Parts[0])
			var sent routev3.RouteConfiguration
			if err := proto.Unmarshal(q.entry.Body(), &sent); err != nil {
				t.Fatal(err)
			}
			q.answer(strict(&sent), "rejected")
		}
	}
	n := len(has) / 2
	if n == 0 || !slices.Equal(has[:n], has[n:]) {
		t.Errorf("%d variants were sent to each of two proxies, without shared memory", n)
	}
}
