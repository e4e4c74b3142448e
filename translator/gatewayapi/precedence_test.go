package gatewayapi_test

import (
	"cmp"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/model"
)

type request struct{ host, path, method, header string }

// oracle answers a request directly from the objects, as Gateway API specifies. It takes the
// listener with the most specific hostname, and then the best match of the attached routes. ""
// means 404.
func oracle(gw *gatewayv1.Gateway, routes []*gatewayv1.HTTPRoute, q request) string {
	var listener *gatewayv1.Listener
	for i := range gw.Spec.Listeners {
		l := &gw.Spec.Listeners[i]
		if hostMatches(hostnameOf(l.Hostname), q.host) &&
			(listener == nil || len(hostnameOf(l.Hostname)) > len(hostnameOf(listener.Hostname)) &&
				wild(hostnameOf(listener.Hostname)) || !wild(hostnameOf(l.Hostname))) {
			listener = l
		}
	}
	if listener == nil {
		return ""
	}
	type answer struct {
		key  []int
		last string
		name string
	}
	var best *answer
	for _, route := range routes {
		if p := route.Spec.ParentRefs[0].SectionName; p != nil && *p != listener.Name {
			continue
		}
		// Lengths of the longest matching hostname: without a wildcard, and of any kind.
		exactHost, anyHost := -1, -1
		for _, h := range hostnames(route) {
			if hostMatches(h, q.host) {
				anyHost = max(anyHost, len(h))
				if !wild(h) {
					exactHost = max(exactHost, len(h))
				}
			}
		}
		if anyHost < 0 {
			continue
		}
		for i, rule := range route.Spec.Rules {
			for _, m := range rule.Matches {
				if !matches(&m, q) {
					continue
				}
				exact, prefix, method := 0, 0, 0
				if *m.Path.Type == gatewayv1.PathMatchExact {
					exact = 1
				} else {
					prefix = len(strings.TrimSuffix(*m.Path.Value, "/"))
				}
				if m.Method != nil {
					method = 1
				}
				a := &answer{
					[]int{exactHost, anyHost, exact, prefix, method, len(m.Headers),
						-int(route.CreationTimestamp.Unix())},
					route.Namespace + "/" + route.Name, fmt.Sprintf("%s/%s %d", route.Namespace, route.Name, i),
				}
				if best == nil || cmp.Or(slices.Compare(a.key, best.key), strings.Compare(best.last, a.last)) > 0 {
					best = a
				}
			}
		}
	}
	if best == nil {
		return ""
	}
	return best.name
}

func hostnameOf(h *gatewayv1.Hostname) string {
	if h == nil {
		return "*"
	}
	return string(*h)
}

func hostnames(route *gatewayv1.HTTPRoute) (out []string) {
	for _, h := range route.Spec.Hostnames {
		out = append(out, string(h))
	}
	if out == nil {
		return []string{"*"}
	}
	return out
}

func wild(h string) bool { return strings.HasPrefix(h, "*") }

func hostMatches(pattern, host string) bool {
	return pattern == host || wild(pattern) && strings.HasSuffix(host, pattern[1:]) && len(host) > len(pattern)-1
}

func matches(m *gatewayv1.HTTPRouteMatch, q request) bool {
	if *m.Path.Type == gatewayv1.PathMatchExact && q.path != *m.Path.Value {
		return false
	}
	if *m.Path.Type == gatewayv1.PathMatchPathPrefix && !prefixed(q.path, *m.Path.Value) {
		return false
	}
	return (m.Method == nil || string(*m.Method) == q.method) && (len(m.Headers) == 0 || m.Headers[0].Value == q.header)
}

func prefixed(path, prefix string) bool {
	prefix = strings.TrimSuffix(prefix, "/")
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// asEnvoy answers a request as Envoy does: by the first matching route in the virtual host with the
// most specific domain.
func asEnvoy(hosts []*model.VirtualHost, q request) string {
	var best *model.VirtualHost
	for _, vh := range hosts {
		if hostMatches(vh.Host, q.host) &&
			(best == nil || !wild(vh.Host) || wild(best.Host) && len(vh.Host) > len(best.Host)) {
			best = vh
		}
	}
	if best == nil {
		return ""
	}
	for _, r := range best.Routes {
		ok := r.Match.Path == q.path
		if r.Match.PathKind == model.PathPrefix {
			ok = prefixed(q.path, r.Match.Path)
		}
		if ok && (r.Match.Method == "" || r.Match.Method == q.method) &&
			(len(r.Match.Headers) == 0 || r.Match.Headers[0].Value == q.header) {
			return fmt.Sprintf("%s %d", r.Owner.Key(), r.Rule)
		}
	}
	return ""
}

var (
	someHosts   = []string{"", "*.com", "*.a.com", "x.a.com", "y.a.com", "*.x.a.com", "z.x.a.com", "b.com"}
	someQueries = []string{"x.a.com", "y.a.com", "w.a.com", "z.x.a.com", "v.x.a.com", "b.com", "c.com", "a.com",
		"other.org"}
	somePaths   = []string{"/", "/a", "/a/", "/a/b", "/ab"}
	someMethods = []string{"GET", "POST"}
)

func TestHTTPRoute_PrecedenceFollowsTheSpecification(t *testing.T) {
	for seed := range int64(300) {
		random := rand.New(rand.NewSource(seed))
		gw, routes := randomWorld(random)
		ops := []store.Op{store.Gateways.Put(gw)}
		for _, r := range routes {
			ops = append(ops, store.HTTPRoutes.Put(r))
		}
		w := decide(view(t, ops), gatewayapi.Config{AnyClass: true})
		hosts := w.hosts(w.gateways["default/web"], "http/80")
		for _, host := range someQueries {
			for _, path := range somePaths {
				for _, method := range someMethods {
					for _, header := range []string{"", "1"} {
						q := request{host, path, method, header}
						if want, got := oracle(gw, routes, q), asEnvoy(hosts, q); want != got {
							t.Fatalf("seed %d, %+v: %q answers, the specification demands %q\n%s", seed, q, got, want,
								w)
						}
					}
				}
			}
		}
	}
}

func randomWorld(random *rand.Rand) (*gatewayv1.Gateway, []*gatewayv1.HTTPRoute) {
	pick := func(list []string) string { return list[random.Intn(len(list))] }
	gw := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	used := map[string]bool{}
	for range 1 + random.Intn(4) {
		h := gatewayv1.Hostname(pick(someHosts))
		if used[string(h)] {
			continue
		}
		used[string(h)] = true
		l := gatewayv1.Listener{Name: gatewayv1.SectionName(fmt.Sprintf("l%d", len(gw.Spec.Listeners))), Port: 80,
			Protocol: gatewayv1.HTTPProtocolType}
		if h != "" {
			l.Hostname = &h
		}
		gw.Spec.Listeners = append(gw.Spec.Listeners, l)
	}
	var routes []*gatewayv1.HTTPRoute
	for i := range 1 + random.Intn(5) {
		r := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("r%d", i)}}
		r.CreationTimestamp = metav1.Unix(int64(1+random.Intn(2)), 0)
		parent := gatewayv1.ParentReference{Name: "web"}
		if random.Intn(3) == 0 {
			section := gw.Spec.Listeners[random.Intn(len(gw.Spec.Listeners))].Name
			parent.SectionName = &section
		}
		r.Spec.ParentRefs = []gatewayv1.ParentReference{parent}
		for range random.Intn(3) {
			if h := pick(someHosts); h != "" {
				r.Spec.Hostnames = append(r.Spec.Hostnames, gatewayv1.Hostname(h))
			}
		}
		for range 1 + random.Intn(3) {
			var rule gatewayv1.HTTPRouteRule
			for range 1 + random.Intn(2) {
				rule.Matches = append(rule.Matches, randomMatch(random))
			}
			r.Spec.Rules = append(r.Spec.Rules, rule)
		}
		routes = append(routes, r)
	}
	return gw, routes
}

func randomMatch(random *rand.Rand) gatewayv1.HTTPRouteMatch {
	kind, value := gatewayv1.PathMatchPathPrefix, somePaths[random.Intn(len(somePaths))]
	if random.Intn(3) == 0 {
		kind = gatewayv1.PathMatchExact
	}
	m := gatewayv1.HTTPRouteMatch{Path: &gatewayv1.HTTPPathMatch{Type: &kind, Value: &value}}
	if random.Intn(3) == 0 {
		method := gatewayv1.HTTPMethod(someMethods[random.Intn(len(someMethods))])
		m.Method = &method
	}
	if random.Intn(3) == 0 {
		m.Headers = []gatewayv1.HTTPHeaderMatch{{Name: "X-H", Value: "1"}}
	}
	return m
}

func TestHTTPRoute_ReorderingRulesRenamesNothing(t *testing.T) {
	for seed := range int64(50) {
		random := rand.New(rand.NewSource(seed))
		gw, routes := randomWorld(random)
		names := func() (out []string) {
			ops := []store.Op{store.Gateways.Put(gw)}
			for _, r := range routes {
				ops = append(ops, store.HTTPRoutes.Put(r.DeepCopy()))
			}
			w := decide(view(t, ops), gatewayapi.Config{AnyClass: true})
			for _, vh := range w.hosts(w.gateways["default/web"], "http/80") {
				seen := map[string]bool{}
				for _, r := range vh.Routes {
					if seen[r.Name] {
						t.Fatalf("seed %d: two routes of %s are called %s, want two names", seed, vh.Host, r.Name)
					}
					seen[r.Name] = true
					out = append(out, vh.Host+" "+r.Name)
				}
			}
			slices.Sort(out)
			return out
		}
		before := names()
		for _, r := range routes {
			random.Shuffle(len(r.Spec.Rules), func(i, j int) {
				r.Spec.Rules[i], r.Spec.Rules[j] = r.Spec.Rules[j], r.Spec.Rules[i]
			})
			random.Shuffle(len(r.Spec.Hostnames), func(i, j int) {
				r.Spec.Hostnames[i], r.Spec.Hostnames[j] = r.Spec.Hostnames[j], r.Spec.Hostnames[i]
			})
		}
		if after := names(); !slices.Equal(before, after) {
			t.Fatalf("seed %d: names were %v, are %v, want them unchanged", seed, before, after)
		}
	}
}
