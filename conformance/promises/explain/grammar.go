package explain

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

type value struct {
	Name  string `json:"name"`
	Type  string `json:"type,omitempty"`
	Value string `json:"value"`
}

type path struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

type match struct {
	Path    *path   `json:"path,omitempty"`
	Method  string  `json:"method,omitempty"`
	Headers []value `json:"headers,omitempty"`
	Query   []value `json:"queryParams,omitempty"`

	host string
}

var (
	hosts  = []string{"a.test", "b.test", "x.w.test", "*.w.test", ""}
	exacts = []string{"/", "/v1", "/v1/models", "/a/b", "/a%20b", "/%7Eteam/x", "/caf%C3%A9", "/caf%c3%a9",
		"/q'(1)", "/x;y=1", "/A", "/100%25", "/a%5Cb", "/end/", "/a%2e", "/%2e%2e/up"}
	prefixes = []string{"/", "/v1", "/v1/chat", "/%7Eteam", "/~team", "/a", "/a/", "/a%20b", "/.well-known",
		"/..hidden", "/a:b@c", "/a+b", "/deep/%2e/down", "/%41"}
	patterns = []string{"/r/[a-z]+", "/r/~.*", "/.*team", "(?i)/case", "/v[0-9]/.*", "/a|/b", "/x.*y",
		"/[^/]+/[^/]+", "/r/%7E.*", "/.*%20.*"}
	methods = []string{"GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "HEAD"}
	headers = []value{
		{"x-team", "", "blue"}, {"x-team", "", "blue,red"}, {"x-team", regex, "(blue|red)"}, {"x-team", regex, ".*e"},
		{"X-Mixed", "", "Case"}, {"accept", "", "text/event-stream"},
		{"content-type", "", "application/json"}, {"user-agent", regex, "curl.*"}, {"cookie", "", "s=1"}, {"cookie",
			regex, ".*s=1.*"}, {"authorization", regex, "Bearer .+"},
		{"host", "", "a.test"}, {"host", regex, "(a|b)\\.test.*"}, {"x-forwarded-proto", "", "http"},
		{"x-forwarded-proto", "", "https"}, {"x-envoy-max-retries", "", "3"},
		{"te", "", "trailers"}, {"upgrade", "", "websocket"}, {"x_under", "", "1"}, {"x-request-id", regex, ".+"},
		{"x-gateway-model-name", "", "m1"}, {"x-gateway-model-name", regex, "m[12]"},
		{"expect", "", "100-continue"}, {"x-empty", regex, ".*"}, {"via", "", "1.1 me"}, {"connection", regex, ".*"},
		{"transfer-encoding", "", "chunked"},
	}
	parameters = []value{
		{"team", "", "red fox"}, {"team", "", "red%20fox"}, {"team", "", "fox"}, {"enc", "", "a=b"}, {"enc", "",
			"a+b"}, {"enc", "", "50%"}, {"enc", "", "é"}, {"path", "", "/x/y"},
		{"path", regex, "/x.*"}, {"amp", "", "a&b"}, {"re", regex, "[a-z]+"}, {"re", regex, "a%20.*"}, {"na~me", "",
			"v"}, {"Team", "", "fox"},
	}
)

const regex = "RegularExpression"

// Grammar draws routes and requests. It is not safe for concurrent use.
type Grammar struct {
	*rand.Rand
	matches []match
}

// New returns the grammar of a seed, and draws its routes.
func New(seed uint64) *Grammar {
	g := &Grammar{Rand: rand.New(rand.NewPCG(seed, 41))}
	for _, host := range hosts {
		for range 40 {
			m := g.match()
			m.host = host
			g.matches = append(g.matches, m)
		}
	}
	return g
}

func pick[T any](g *Grammar, list []T) T { return list[g.IntN(len(list))] }

func (g *Grammar) chance(n int) bool { return g.IntN(100) < n }

func (g *Grammar) match() (m match) {
	switch g.IntN(4) {
	case 0:
		m.Path = &path{"Exact", pick(g, exacts)}
	case 1, 2:
		m.Path = &path{"PathPrefix", pick(g, prefixes)}
	case 3:
		m.Path = &path{regex, pick(g, patterns)}
	}
	if g.chance(25) {
		m.Method = pick(g, methods)
	}
	for range g.IntN(3) {
		m.Headers = addValue(m.Headers, pick(g, headers))
	}
	for range g.IntN(2) {
		m.Query = addValue(m.Query, pick(g, parameters))
	}
	return m
}

// addValue adds a match unless the list has its name: a rule may match each name once.
func addValue(list []value, v value) []value {
	for _, o := range list {
		if strings.EqualFold(o.Name, v.Name) {
			return list
		}
	}
	return append(list, v)
}

// Manifest returns a Gateway, and routes to one server. gateway and server are ports.
func (g *Grammar) Manifest(gateway, server int) string {
	var out strings.Builder
	write := func(object map[string]any) {
		text, _ := json.Marshal(object) // cannot fail: objects have maps, lists and strings
		fmt.Fprintf(&out, "%s\n---\n", text)
	}
	object := func(version, kind, name string, spec any) map[string]any {
		return map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name},
			"spec": spec}
	}
	listeners := []any{
		map[string]any{"name": "all", "port": gateway, "protocol": "HTTP"},
		map[string]any{"name": "wild", "port": gateway, "protocol": "HTTP", "hostname": "*.w.test"},
	}
	write(object("gateway.networking.k8s.io/v1", "Gateway", "gw", map[string]any{
		"gatewayClassName": "penstock", "addresses": []any{map[string]any{"value": "127.0.0.1"}},
		"listeners": listeners,
	}))
	write(object("v1", "Service", "one", map[string]any{"ports": []any{map[string]any{"port": 80}}}))
	write(map[string]any{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
		"metadata":  map[string]any{"name": "one", "labels": map[string]any{"kubernetes.io/service-name": "one"}},
		"ports":     []any{map[string]any{"name": "", "port": server}},
		"endpoints": []any{map[string]any{"addresses": []string{"127.0.0.1"}}},
	})
	backends := []any{map[string]any{"name": "one", "port": 80}}
	const perRule, perRoute = 4, 20
	for i := 0; i < len(g.matches); i += perRoute {
		spec := map[string]any{"parentRefs": []any{map[string]any{"name": "gw"}}}
		if host := g.matches[i].host; host != "" {
			spec["hostnames"] = []string{host}
		}
		var rules []any
		for j := i; j < i+perRoute; j += perRule {
			rules = append(rules, map[string]any{"matches": g.matches[j : j+perRule], "backendRefs": backends})
		}
		spec["rules"] = rules
		write(object("gateway.networking.k8s.io/v1", "HTTPRoute", fmt.Sprint("r", i/perRoute), spec))
	}
	write(object("gateway.networking.k8s.io/v1", "GRPCRoute", "grpc", map[string]any{
		"parentRefs": []any{map[string]any{"name": "gw"}}, "hostnames": []string{"b.test"},
		"rules": []any{map[string]any{"backendRefs": backends, "matches": []any{
			map[string]any{"method": map[string]any{"service": "echo.Echo", "method": "Ask"}},
			map[string]any{"method": map[string]any{"service": "echo.Echo"},
				"headers": []value{{"x-team", "", "blue"}}},
			map[string]any{"method": map[string]any{"type": regex, "service": "echo\\..*", "method": "[A-Z]+"}},
		}}},
	}))
	return out.String()
}
