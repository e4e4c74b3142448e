package envoy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/translator/model"
)

func prefix(p string) model.Match { return model.Match{PathKind: model.PathPrefix, Path: p} }

func answers(word string, m model.Match) model.Route {
	return model.Route{Name: word, Match: m, Action: &model.Action{Direct: &model.Direct{Status: 200, Body: word}}}
}

func TestHTTPRoute_MatchesByItsRules(t *testing.T) {
	t.Parallel()
	r := newRig(t, closedPort(t))
	r.host("m",
		answers("exact", model.Match{PathKind: model.PathExact, Path: "/exact"}),
		answers("exact-slash", model.Match{PathKind: model.PathExact, Path: "/slash/"}),
		answers("regex", model.Match{PathKind: model.PathRegex, Path: "/re/[0-9]+"}),
		answers("prefix", prefix("/a/b/")),
		answers("method", model.Match{PathKind: model.PathPrefix, Path: "/x", Method: "DELETE"}),
		answers("header", model.Match{PathKind: model.PathPrefix, Path: "/x", Headers: []model.ValueMatch{
			{Name: "version", Value: "one"}, {Name: "version", Value: "ignored"},
			{Name: "color", Regex: true, Value: "r.*d"}}}),
		answers("query",
			model.Match{PathKind: model.PathPrefix, Path: "/x",
				Query: []model.ValueMatch{{Name: "q", Value: "1"}, {Name: "w", Regex: true, Value: "[ab]+"}}}),
		answers("host",
			model.Match{PathKind: model.PathPrefix, Path: "/x",
				Headers: []model.ValueMatch{{Name: "host", Regex: true, Value: "m(:[0-9]+)?"},
					{Name: "only", Value: "host"}}}),
		answers("root", prefix("/")),
	)
	r.host("*.wild", answers("wild", prefix("/")))
	r.host("x.wild", answers("x-wild", prefix("/")))
	r.start()
	for _, c := range []struct {
		host, method, path string
		headers            []string
		want               string
	}{
		{"m", "GET", "/exact", nil, "exact"}, {"m", "GET", "/exact?q=1", nil, "exact"},
		{"m", "GET", "/exact/", nil, "root"},
		{"m", "GET", "/slash/", nil, "exact-slash"}, {"m", "GET", "/slash", nil, "root"},
		{"m", "GET", "/re/42", nil, "regex"}, {"m", "GET", "/re/42/", nil, "root"}, {"m", "GET", "/re/x", nil, "root"},
		{"m", "GET", "/a/b", nil, "prefix"}, {"m", "GET", "/a/b/", nil, "prefix"},
		{"m", "GET", "/a/b/c", nil, "prefix"},
		{"m", "GET", "/a/bc", nil, "root"}, {"m", "GET", "/a/../a/b", nil, "prefix"},
		{"m", "GET", "/a//b", nil, "prefix"},
		{"m", "DELETE", "/x", nil, "method"}, {"m", "GET", "/x", nil, "root"},
		{"m", "GET", "/x", []string{"Version", "one", "Color", "rod"}, "header"},
		{"m", "GET", "/x", []string{"Version", "one", "Color", "a red one"}, "root"},
		{"m", "GET", "/x", []string{"Version", "ignored", "Color", "red"}, "root"},
		{"m", "GET", "/x?q=1&w=ab", nil, "query"}, {"m", "GET", "/x?q=1", nil, "root"},
		{"m", "GET", "/x?q=1&w=abc", nil, "root"},
		{"m", "GET", "/x", []string{"only", "host"}, "host"}, {"m:1234", "GET", "/x", []string{"only", "host"}, "host"},
		{"a.wild", "GET", "/", nil, "wild"}, {"a.b.wild", "GET", "/", nil, "wild"},
		{"x.wild:80", "GET", "/", nil, "x-wild"},
		{"wild", "GET", "/", nil, ""}, {"M", "GET", "/", nil, "root"},
	} {
		req := r.request(c.method, c.host, c.path, nil)
		// With Opaque, the client sends the path unchanged, with its dots and slashes.
		req.URL.Opaque, req.URL.RawQuery = c.path, ""
		for i := 0; i < len(c.headers); i += 2 {
			req.Header.Set(c.headers[i], c.headers[i+1])
		}
		got, err := r.do(req)
		if err != nil || got.body != c.want || (got.status == 404) != (c.want == "") {
			t.Errorf("%s %s%s %v: want %q, got %s %v", c.method, c.host, c.path, c.headers, c.want, got, err)
		}
	}
}

func TestURLRewrite_FollowsTheSpecificationsTable(t *testing.T) {
	t.Parallel()
	a := startPod(t, "a", 200)
	r := newRig(t, closedPort(t))
	r.cluster(model.Cluster{Name: named("a"), Protocol: model.HTTP1}, endpoints(a.address)...)
	type rewrite struct{ match, replacement, path, want string }
	table := []rewrite{ // examples of HTTPPathModifier in Gateway API
		{"/foo", "/xyz", "/foo/bar", "/xyz/bar"}, {"/foo", "/xyz/", "/foo/bar", "/xyz/bar"},
		{"/foo/", "/xyz", "/foo/bar", "/xyz/bar"},
		{"/foo/", "/xyz/", "/foo/bar", "/xyz/bar"}, {"/foo", "/xyz", "/foo", "/xyz"},
		{"/foo", "/xyz", "/foo/", "/xyz/"},
		{"/foo", "", "/foo/bar", "/bar"}, {"/foo", "", "/foo/", "/"}, {"/foo", "", "/foo", "/"},
		{"/foo", "/", "/foo/", "/"},
		{"/foo", "/", "/foo", "/"}, {"/foo", "/", "/foo/bar?q=1", "/bar?q=1"},
		{"/", "/xyz", "/bar", "/xyz/bar"}, {"/", "/xyz/", "/", "/xyz/"}, {"/", "/", "/bar", "/bar"},
		{"/a.b", "", "/a.b/c", "/c"}, {"/foo", `/x\1`, "/foo/bar", `/x%5C1/bar`},
	}
	host := func(i int) string { return fmt.Sprintf("rewrite-%d", i) }
	for i, c := range table {
		r.host(host(i), model.Route{Name: "r", Match: prefix(c.match), Action: &model.Action{Forward: &model.Forward{
			Backends:    []model.WeightedBackend{{Cluster: named("a"), Weight: 1}},
			RewriteHost: "rewritten.example", RewritePath: model.PathChange{Prefix: &c.replacement},
		}}})
	}
	full := `/whole\0`
	r.forward("full",
		model.Forward{Backends: []model.WeightedBackend{{Cluster: named("a"), Weight: 1}},
			RewritePath: model.PathChange{Full: &full}})
	r.start()
	for i, c := range table {
		req := r.request("GET", host(i), c.path, nil)
		got, err := r.do(req)
		if err != nil || got.header.Get("Echo-Path") != c.want {
			t.Errorf("%+v: the backend saw %q (%s, %v), want %q", c, got.header.Get("Echo-Path"), got, err, c.want)
		}
		if h := got.header.Get("Echo-Host"); h != "rewritten.example" {
			t.Errorf(`%+v: the backend saw host %q, want "rewritten.example"`, c, h)
		}
	}
	if got, err := r.do(r.request("GET", "full", "/some/path?q=1", nil)); err != nil ||
		got.header.Get("Echo-Path") != `/whole%5C0?q=1` {
		t.Errorf(`whole path: got %v %v, want /whole%%5C0?q=1`, got.header, err)
	}
}

func TestRequestRedirect_FollowsTheSpecification(t *testing.T) {
	t.Parallel()
	r := newRig(t, closedPort(t))
	text := func(s string) *string { return &s }
	table := []struct {
		host  string // host of the listener; "" for a generated name
		match model.Match
		r     model.Redirect
		ask   string // value of the Host header; "" for host
		path  string
		code  int
		want  string // %h stands for host, %p for the listener's port
	}{
		{match: prefix("/"), r: model.Redirect{Host: "example.org", Code: 302}, path: "/a?q=1", code: 302,
			want: "http://example.org:%p/a?q=1"},
		{match: prefix("/"), r: model.Redirect{Scheme: "https", Code: 301}, path: "/a", code: 301,
			want: "https://%h/a"},
		{match: prefix("/"), r: model.Redirect{Scheme: "https", Code: 301}, ask: "%h:8080", path: "/a", code: 301,
			want: "https://%h/a"},
		{match: prefix("/"), r: model.Redirect{Scheme: "https", Host: "example.org", Code: 307}, path: "/", code: 307,
			want: "https://example.org/"},
		{match: prefix("/"), r: model.Redirect{Scheme: "https", Port: 8443, Code: 308}, path: "/", code: 308,
			want: "https://%h:8443/"},
		{match: prefix("/"), r: model.Redirect{Scheme: "http", Code: 303}, path: "/", code: 303, want: "http://%h/"},
		{match: prefix("/"), r: model.Redirect{Port: 80, Code: 302}, path: "/", code: 302, want: "http://%h/"},
		{match: prefix("/"), r: model.Redirect{Scheme: "https", Port: 443, Code: 302}, path: "/", code: 302,
			want: "https://%h/"},
		{match: prefix("/"), r: model.Redirect{Port: 8083, Code: 302}, path: "/", code: 302, want: "http://%h:8083/"},
		{host: "*.redirect", match: prefix("/"), r: model.Redirect{Scheme: "https", Code: 302}, ask: "x.redirect:8080",
			path: "/a:443/", code: 302, want: "https://x.redirect/a:443/"},
		{host: "*.plain", match: prefix("/"), r: model.Redirect{Port: 80, Code: 302}, ask: "x.plain:8080", path: "/",
			code: 302, want: "http://x.plain/"},
		{match: prefix("/foo"), r: model.Redirect{Host: "o", Path: model.PathChange{Prefix: text("/xyz")}, Code: 302},
			path: "/foo/bar?q=1", code: 302, want: "http://o:%p/xyz/bar?q=1"},
		{match: prefix("/foo"), r: model.Redirect{Host: "o", Path: model.PathChange{Prefix: text("/")}, Code: 302},
			path: "/foo", code: 302, want: "http://o:%p/"},
		{match: prefix("/foo"), r: model.Redirect{Host: "o", Path: model.PathChange{Prefix: text("")}, Code: 302},
			path: "/foo/bar", code: 302, want: "http://o:%p/bar"},
		{match: prefix("/foo"), r: model.Redirect{Host: "o", Path: model.PathChange{Full: text("/whole")}, Code: 302},
			path: "/foo/bar", code: 302, want: "http://o:%p/whole"},
	}
	name := func(i int) string {
		if table[i].host != "" {
			return table[i].host
		}
		return fmt.Sprintf("redirect-%d", i)
	}
	for i, c := range table {
		r.host(name(i), model.Route{Name: "r", Match: c.match, Action: &model.Action{
			Redirect: &c.r, ResponseHeaders: model.HeaderChanges{Set: []model.Header{{Name: "why", Value: "moved"}}},
		}})
	}
	r.start()
	for i, c := range table {
		fill := strings.NewReplacer("%h", name(i), "%p", fmt.Sprint(r.port)).Replace
		ask := fill(c.ask)
		if ask == "" {
			ask = name(i)
		}
		got, err := r.do(r.request("GET", ask, c.path, nil))
		if err != nil || got.status != c.code || got.header.Get("Location") != fill(c.want) {
			t.Errorf("%+v: want %d %s, got %d %s %v", c.r, c.code, fill(c.want), got.status, got.header.Get("Location"),
				err)
		}
		if got.header.Get("Why") != "moved" {
			t.Errorf("%+v: the rule's response header is missing, want Why: moved", c.r)
		}
	}
}

func TestHeaderModifier_ChangesHeadersOnRulesAndBackends(t *testing.T) {
	t.Parallel()
	a := startPod(t, "a", 200)
	r := newRig(t, closedPort(t))
	r.cluster(model.Cluster{Name: named("a"), Protocol: model.HTTP1}, endpoints(a.address)...)
	h := func(nv ...string) []model.Header {
		var out []model.Header
		for i := 0; i < len(nv); i += 2 {
			out = append(out, model.Header{Name: nv[i], Value: nv[i+1]})
		}
		return out
	}
	changes := func(by string) model.HeaderChanges {
		return model.HeaderChanges{Set: h(by+"-set", "100% %REQ(:path)%"), Add: h(by+"-add", "more"),
			Remove: []string{by + "-remove"}}
	}
	r.host("h", model.Route{Name: "r", Match: prefix("/"), Action: &model.Action{
		RequestHeaders: changes("rule"), ResponseHeaders: model.HeaderChanges{
			Set: h("pod", "hidden"), Remove: []string{"echo-path"},
		},
		Forward: &model.Forward{Backends: []model.WeightedBackend{{
			Cluster: named("a"), Weight: 1, RequestHeaders: changes("backend"),
			ResponseHeaders: model.HeaderChanges{Add: h("backend", "a")},
		}}},
	}})
	r.start()
	req := r.request("GET", "h", "/", nil)
	for _, by := range []string{"rule", "backend"} {
		for _, what := range []string{"set", "add", "remove"} {
			req.Header.Set(by+"-"+what, "client's")
		}
	}
	got, err := r.do(req)
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []string{"Rule", "Backend"} {
		for header, want := range map[string]string{
			"Set": "[100% %REQ(:path)%]", "Add": "[client's more]", "Remove": "[]",
		} {
			if v := fmt.Sprint(got.header.Values("Echo-" + by + "-" + header)); v != want {
				t.Errorf("%s-%s: the backend saw %s, want %s", by, header, v, want)
			}
		}
	}
	if got.pod != "hidden" || got.header.Get("Echo-Path") != "" || got.header.Get("Backend") != "a" {
		t.Errorf("response headers: got %v, want pod hidden, no Echo-Path, and Backend a", got.header)
	}
}

func TestTimeouts_EndOnlyLimitedRequests(t *testing.T) {
	t.Parallel()
	slow := &pod{name: "slow"}
	slow.serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		slow.hits.Add(1)
		select { // 3 s is longer than each timeout of this test
		case <-req.Context().Done():
		case <-time.After(3 * time.Second):
		}
		w.Header().Set("Pod", "slow")
	}))
	fast := startPod(t, "fast", 200)
	p := startPicker(t, map[string]script{"silent": {silent: true}, "slow": {endpoints: slow.address.String()}})
	r := newRig(t, p.address)
	r.cluster(model.Cluster{Name: named("slow"), Protocol: model.HTTP1}, endpoints(slow.address)...)
	r.cluster(model.Cluster{Name: named("both"), Protocol: model.HTTP1}, endpoints(slow.address, fast.address)...)
	short := 300 * time.Millisecond
	none := time.Duration(0)
	one := []model.WeightedBackend{{Cluster: named("slow"), Weight: 1}}
	r.forward("whole", model.Forward{Backends: one, Timeout: &short})
	r.forward("attempt", model.Forward{Backends: one, BackendTimeout: &short})
	r.forward("off", model.Forward{Backends: one, Timeout: &none})
	r.forward("retried", model.Forward{Backends: []model.WeightedBackend{{Cluster: named("both"), Weight: 1}},
		BackendTimeout: &short, Retry: &model.Retry{Attempts: 4, Codes: []uint32{500}}})
	r.cluster(model.Cluster{Name: named("llm"), Protocol: model.HTTP1, Fallback: model.FallbackPods},
		endpoints(slow.address)...)
	r.forward("picking",
		model.Forward{Timeout: &short, Backends: []model.WeightedBackend{pool("llm", "silent", model.BodyBuffered)}})
	r.forward("pool", backends(pool("llm", "slow", model.BodyBuffered)))
	r.start()
	for host, want := range map[string]string{"picking": "504 ", "pool": "200 slow", "whole": "504 ", "attempt": "504 ",
		"off": "200 slow"} {
		if got := r.post(t, host, nil); fmt.Sprint(got.status, " ", got.pod) != want {
			t.Errorf("%s: want %s, got %s", host, want, got)
		}
	}
	for range 4 { // either server may be chosen first
		if got := r.post(t, "retried", nil); got.pod != "fast" {
			t.Errorf("an attempt that takes too long: got %s, want pod fast, where it is repeated", got)
		}
	}
}
