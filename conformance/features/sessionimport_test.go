package features

import (
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"
)

var selections = map[string]string{
	"weighted":  "{policy: Weighted}",
	"priority":  "{policy: Priority, order: [west, east]}",
	"locality":  "{policy: Locality}",
	"leastload": "{policy: LeastLoad}",
	"latency":   "{policy: Latency, affinity: Session}",
}

// With sessionPersistence on a route to an import, a session's requests go to one server of one
// cluster, with each selection policy. They move once when their cluster is drained.
func TestSessionPersistence_ImportKeepsClusterAndServer(t *testing.T) {
	for mode, test := range map[string]struct{ policy, east, west string }{
		"EndpointMode": {"round-robin", endpointMode("east"), endpointMode("west")},
		"declared":     {"round-robin", declaredEndpoints("east"), declaredEndpoints("west")},
		"ParentMode":   {"session", parentMode("east"), parentMode("west")},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			for _, name := range []string{"east", "west"} {
				for _, n := range []string{"1", "2", "3"} {
					s.plainServer(name + "-" + n)
				}
				s.exporterNamed(name, "sessionimport.yaml", with(name, test.policy))
			}
			s.imports(test.east, test.west)
			s.up("sessionimport.yaml")
			at := map[string][]*session{}
			for path := range selections {
				at[path] = s.sessions("/" + path)
			}
			at["header"] = s.sessions("/header")
			at["one"] = s.sessions("/one")
			for _, list := range at {
				for _, one := range list {
					one.stays(100 / len(list))
				}
			}
			s.imports(strings.Replace(test.east, "weight: 1", "weight: 0", 1), test.west)
			for path, list := range at {
				s.drained(path, list)
			}
		})
	}
}

func TestSessionPersistence_SessionsOfLostClusterMoveOnce(t *testing.T) {
	for mode, test := range map[string]struct{ policy, east, west string }{
		"EndpointMode": {"round-robin", endpointMode("east"), endpointMode("west")},
		"ParentMode":   {"session", parentMode("east"), parentMode("west")},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			exporters := map[string]*site{}
			for _, name := range []string{"east", "west"} {
				for _, n := range []string{"1", "2", "3"} {
					s.plainServer(name + "-" + n)
				}
				exporters[name] = s.exporterNamed(name, "sessionimport.yaml", with(name, test.policy))
			}
			s.imports(test.east, test.west)
			s.up("sessionimport.yaml")
			list := s.sessions("/weighted")
			exporters["east"].stop()
			for _, one := range list {
				before := one.at
				if one.at = one.ask(); strings.HasPrefix(one.at, "east") && mode == "ParentMode" ||
					strings.HasPrefix(before, "west") && one.at != before {
					t.Errorf("a session moved from %s to %s, want it to leave east alone", before, one.at)
				}
				one.stays(20)
			}
		})
	}
}

// If the gateways are members of one ClusterSet, a session keeps its server with any pool strategy.
func TestSessionPersistence_PeerKeepsServer(t *testing.T) {
	t.Parallel()
	here := newSite(t)
	here.member("here", "", "sessionimport.yaml", with("here"))
	exported := swap("kind: InferencePool\nmetadata: {name: chat}", `kind: InferencePool
metadata:
  name: chat
  annotations:
    inference.networking.x-k8s.io/export: ClusterSet
    inference.networking.x-k8s.io/export-mode: ParentMode`)
	for _, name := range []string{"east", "west"} {
		exporter := newSite(t)
		for _, n := range []string{"1", "2", "3"} {
			exporter.plainServer(name + "-" + n)
		}
		exporter.member(name, exporter.peerListener(), "sessionimport.yaml", with(name, "round-robin"), exported)
		here.join(exporter)
	}
	seen := map[string]bool{}
	here.Eventually("both clusters serve", func() error {
		got, err := here.ask("/", question)
		if err == nil && got.status == http.StatusOK {
			seen[got.by()[:4]] = true
		}
		return because(len(seen) == 2, seen, "; status:\n", here.status())
	})
	for _, one := range here.sessions("/") {
		one.stays(25)
	}
}

// drained waits until the sessions of a path have left east, which drains. Sessions in west must
// not move, and the others only once.
func (s *site) drained(path string, list []*session) {
	s.Helper()
	for _, one := range list {
		if strings.HasPrefix(one.at, "east") {
			s.Eventually("a session of "+path+" leaves the cluster that drains", func() error {
				one.at = one.ask()
				return because(strings.HasPrefix(one.at, "west"), one.at, " serves")
			})
		}
		one.stays(10)
	}
}

type session struct {
	s      *site
	path   string
	client *http.Client
	header string // session header of the last response with this header
	at     string // server of the session's first request
	asked  int
}

// sessions begins four sessions at a path. For /weighted, both clusters must have some of them.
func (s *site) sessions(path string) (list []*session) {
	s.Helper()
	s.answers(path, http.StatusOK)
	for range 4 {
		jar, err := cookiejar.New(nil)
		if err != nil {
			s.Fatal(err)
		}
		one := &session{s: s, path: path, client: client()}
		one.client.Jar = jar
		one.at = one.ask()
		list = append(list, one)
	}
	in := map[string]bool{}
	for _, one := range list {
		in[one.at[:4]] = true
	}
	if path == "/weighted" && len(in) != 2 {
		s.Errorf("clusters of the sessions of %s: got %v, want 2", path, in)
	}
	return list
}

func (one *session) ask() string {
	one.s.Helper()
	one.asked++
	body := strings.Replace(question, "repeat this", fmt.Sprint(one.path, " ", one.at, " ", one.asked), 1)
	req, err := request(one.s.Context(), one.s.url(one.path), body)
	if err != nil {
		one.s.Fatal(err)
	}
	if one.header != "" {
		req.Header.Set("x-far", one.header)
	}
	got, err := do(one.client, req)
	if err != nil || got.status != http.StatusOK {
		one.s.Fatalf("%s: %d %s %v", one.path, got.status, got.body, err)
	}
	if next := got.header.Get("x-far"); next != "" {
		one.header = next
	}
	return got.by()
}

// stays sends requests of the session, which must go to the server of its first request.
func (one *session) stays(times int) {
	one.s.Helper()
	for range times {
		if by := one.ask(); by != one.at {
			one.s.Errorf("%s: a session moved from %s to %s with request %d:\n%s", one.path, one.at, by, one.asked,
				one.s.explain("--last", "2"))
			return
		}
	}
}

// plainServer is a model server in this process without a metrics page.
func (s *site) plainServer(name string) {
	s.backend(name, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for header := range r.Header {
			if strings.HasPrefix(header, "Penstock-") {
				s.Errorf("a model server gets %s, want no header of Penstock", header)
			}
		}
		w.Header().Set("x-served-by", name)
		w.Header().Set("content-type", "application/json")
		_, _ = w.Write([]byte(`{"choices": []}`))
	}))
}

// exporterNamed starts an exporting site, whose gateway has port ${NAME}, and its picker
// ${NAME.picker}.
func (s *site) exporterNamed(name, fixture string, edits ...edit) *site {
	s.Helper()
	other := newSite(s.TB)
	s.ports[name], s.ports[name+".picker"] = other.ports["gateway"], s.Port()
	for server, port := range s.ports {
		if server != "gateway" {
			other.ports[server] = port
		}
	}
	other.flags = []string{"--picker", s.address(name + ".picker"), "--default-pool", "default/chat"}
	other.up(fixture, edits...)
	return other
}

func endpointMode(name string) string {
	return fmt.Sprintf(`
  - name: %[1]s
    weight: 1
    routingMode: EndpointMode
    targetPorts: [{number: ${%[1]s-1}}, {number: ${%[1]s-2}}, {number: ${%[1]s-3}}]
    podCIDRs: [127.0.0.0/8]
    endpointPicker: {service: [{addresses: [127.0.0.1], ports: [{number: ${%[1]s.picker}, appProtocol: kubernetes.io/h2c}]}]}`, name)
}

func declaredEndpoints(name string) string {
	return strings.Replace(endpointMode(name), "podCIDRs: [127.0.0.0/8]", "endpoints: [{address: 127.0.0.1}]", 1)
}

func parentMode(name string) string {
	return fmt.Sprintf(`
  - name: %[1]s
    weight: 1
    routingMode: ParentMode
    parents: [{service: [{addresses: [127.0.0.1], ports: [{number: ${%[1]s}, appProtocol: http}]}]}]`, name)
}

// imports writes, for each selection policy, an import with three routes: plain, with the session
// in a header, and to an import of one cluster.
func (s *site) imports(east, west string) {
	s.Helper()
	var out strings.Builder
	route := func(path, to, session string) {
		fmt.Fprintf(&out, `
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %[1]s}
spec:
  parentRefs: [{name: gw}]
  rules:
  - matches: [{path: {type: PathPrefix, value: /%[1]s}}]
    filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}]
    sessionPersistence: %[3]s
    backendRefs: [{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: %[2]s}]`, path, to, session)
	}
	for name, selection := range selections {
		route(name, name, "{}")
		fmt.Fprintf(&out, `
---
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferencePoolImport
metadata: {name: %[1]s}
status:
  clusters:%[2]s%[3]s
---
apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: %[1]s}
spec:
  targetRef: {group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: %[1]s}
  selection: %[4]s`, name, east, west, selection)
	}
	route("header", "weighted", "{type: Header, sessionName: X-Far}")
	route("one", "weighted-west", "{sessionName: one, absoluteTimeout: 1h, cookieConfig: {lifetimeType: Permanent}}")
	s.Write("imports.yaml", s.expanded(out.String()))
}
