package envoy

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/translator/model"
)

func TestSessionPersistence_KeepsClientsAtTheirServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, closedPort(t))
	pods := map[string]*pod{}
	for _, service := range []string{"a", "b"} {
		var group []model.Endpoint
		for _, n := range []string{"1", "2", "3"} {
			p := startPod(t, service+n, 200)
			pods[p.name] = p
			group = append(group, endpoints(p.address)...)
		}
		r.cluster(model.Cluster{Name: named(service), Protocol: model.HTTP1}, group...)
	}
	one := []model.WeightedBackend{{Cluster: named("a"), Weight: 1}}
	two := []model.WeightedBackend{{Cluster: named("a"), Weight: 1}, {Cluster: named("b"), Weight: 1}}
	r.forward("none", model.Forward{Backends: one})
	r.forward("cookie", model.Forward{Backends: one, Session: &model.Session{Name: "s", Path: "/v1"}})
	r.forward("permanent",
		model.Forward{Backends: one, Session: &model.Session{Name: "s", Path: "/", Timeout: time.Hour}})
	r.forward("header", model.Forward{Backends: one, Session: &model.Session{Name: "x-s", Header: true}})
	r.forward("split", model.Forward{Backends: two, Session: &model.Session{Name: "s", Path: "/"}})
	r.start()

	served := func(host string, n int, prepare func(*http.Request, string)) (map[string]bool, answer) {
		return r.session(t, host, n, prepare)
	}
	if seen, _ := served("none", 50, nil); len(seen) != 3 {
		t.Fatalf("without a session all servers should serve: %v, want 3 of them", seen)
	}
	seen, first := served("cookie", 30, nil)
	if c := first.header.Get("Set-Cookie"); len(seen) != 1 || !strings.HasPrefix(c, "s=") ||
		!strings.Contains(c, "Path=/v1") || strings.Contains(c, "Max-Age") {
		t.Errorf("cookie %q: served by %v, want one pod, and a cookie s of path /v1 for the session", c, seen)
	}
	seen, first = served("permanent", 30, nil)
	if c := first.header.Get("Set-Cookie"); len(seen) != 1 || !strings.Contains(c, "Max-Age=3600") {
		t.Errorf(`cookie %q: served by %v, want 1 of them and a text with "Max-Age=3600"`, c, seen)
	}
	if seen, _ := served("header", 30, func(req *http.Request, last string) {
		req.Header.Set("X-S", last)
	}); len(seen) != 1 {
		t.Errorf("header: served by %v, want 1 of them", seen)
	}
	all := map[string]bool{}
	for range 12 {
		seen, _ := served("split", 10, nil)
		if len(seen) != 1 {
			t.Errorf("one session of two backends was served by %v, want 1 of them", seen)
		}
		for p := range seen {
			all[p[:1]] = true
		}
	}
	if len(all) != 2 {
		t.Errorf("sessions went to %v alone, want 2 of them", all)
	}
}

// session sends n requests of one client. It returns the servers and the first answer. The argument
// prepare receives the session header of the previous answer.
func (r *rig) session(t *testing.T, host string, n int, prepare func(*http.Request, string)) (
	seen map[string]bool, first answer,
) {
	seen = map[string]bool{}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	u := &url.URL{Scheme: "http", Host: host, Path: "/v1/chat/completions"}
	var last string // value in the previous answer
	for i := range n {
		req := r.request("GET", host, u.Path, nil)
		for _, c := range jar.Cookies(u) {
			req.AddCookie(c)
		}
		if prepare != nil {
			prepare(req, last)
		}
		got, err := r.do(req)
		if err != nil || got.status != 200 {
			t.Fatalf("%s: got %s %v, want 200", host, got, err)
		}
		jar.SetCookies(u, (&http.Response{Header: got.header}).Cookies())
		seen[got.pod] = true
		if h := got.header.Get("X-S"); h != "" {
			last = h
		}
		if i == 0 {
			first = got
		}
	}
	return seen, first
}
