package envoy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/translator/model"
)

type corsCase struct {
	host, origin string
	ask          []string // method and headers of a preflight request; nil: no preflight
	want         map[string]string
}

func TestCORS_AllowsListedOrigins(t *testing.T) {
	t.Parallel()
	a := startPod(t, "a", 200)
	r := newRig(t, closedPort(t))
	r.cluster(model.Cluster{Name: named("a"), Protocol: model.HTTP1}, endpoints(a.address)...)
	add := func(host string, c model.CORS) {
		c.MaxAge = time.Hour
		r.host(host, model.Route{Name: host, Match: prefix("/"), Action: &model.Action{
			CORS: &c, Forward: &model.Forward{Backends: []model.WeightedBackend{{Cluster: named("a"), Weight: 1}}},
		}})
	}
	add("listed", model.CORS{
		Origins: []string{"https://www.foo.com", "https://*.bar.com", "http://*:8080"},
		Methods: []string{"GET", "OPTIONS"},
		Headers: []string{"x-header-1", "x-header-2"}, Expose: []string{"x-header-3", "x-header-4"}, Credentials: true,
	})
	add("any",
		model.CORS{Origins: []string{"*"}, Methods: []string{"*"}, Headers: []string{"*"}, Expose: []string{"*"}})
	add("any-trusted",
		model.CORS{Origins: []string{"*"}, Methods: []string{"*"}, Headers: []string{"*"}, Credentials: true})
	add("none", model.CORS{})
	r.start()
	const origin, methods, headers, expose, credentials, age = "Allow-Origin", "Allow-Methods", "Allow-Headers",
		"Expose-Headers", "Allow-Credentials", "Max-Age"
	for _, c := range []corsCase{
		{"listed", "https://www.foo.com", []string{"GET", "x-header-1, x-header-2"},
			map[string]string{origin: "https://www.foo.com", methods: "GET, OPTIONS", headers: "x-header-1, x-header-2",
				expose: "x-header-3, x-header-4", credentials: "true", age: "3600"}},
		{"listed", "https://xpto.www.bar.com", []string{"GET", ""},
			map[string]string{origin: "https://xpto.www.bar.com", methods: "GET, OPTIONS"}},
		{"listed", "http://[::1]:8080", []string{"GET", ""}, map[string]string{origin: "http://[::1]:8080"}},
		// Without Access-Control-Allow-Origin, browsers ignore the other headers.
		{"listed", "https://bar.com", []string{"GET", ""}, map[string]string{origin: ""}},
		{"listed", "https://foobar.com", []string{"GET", ""}, map[string]string{origin: ""}},
		{"listed", "https://a.bar.com.evil.com", []string{"GET", ""}, map[string]string{origin: ""}},
		{"listed", "https://evil.com/.bar.com", []string{"GET", ""}, map[string]string{origin: ""}},
		{
			"listed", "https://a.bar.com", nil, map[string]string{
				origin: "https://a.bar.com", expose: "x-header-3, x-header-4", credentials: "true",
			},
		},
		{"listed", "https://foobar.com", nil, map[string]string{origin: "", expose: ""}},
		{"any", "https://foobar.com:12345", []string{"PUT", "x-a"},
			map[string]string{origin: "https://foobar.com:12345", methods: "PUT", headers: "x-a", credentials: ""}},
		{
			"any", "https://foobar.com", nil, map[string]string{
				origin: "https://foobar.com", expose: "*", credentials: "",
			},
		},
		{"any-trusted", "https://other.foo.com", []string{"PUT", "x-a, x-b"},
			map[string]string{origin: "https://other.foo.com", methods: "PUT", headers: "x-a, x-b",
				credentials: "true"}},
		{"any-trusted", "https://other.foo.com", []string{"PUT", ""},
			map[string]string{origin: "https://other.foo.com", methods: "PUT", headers: "", credentials: "true"}},
		{"any-trusted", "https://other.foo.com", nil,
			map[string]string{origin: "https://other.foo.com", methods: "", headers: "", credentials: "true"}},
		{"none", "https://foo.com", []string{"GET", ""}, map[string]string{origin: ""}},
	} {
		t.Run(fmt.Sprint(c.host, " ", c.origin, " ", c.ask), func(t *testing.T) { c.check(t, r, a) })
	}
}

func (c *corsCase) check(t *testing.T, r *rig, a *pod) {
	method, pod := "GET", "a"
	if c.ask != nil {
		method, pod = "OPTIONS", ""
	}
	before := a.hits.Load()
	req := r.request(method, c.host, "/", nil)
	req.Header.Set("Origin", c.origin)
	if c.ask != nil {
		req.Header.Set("Access-Control-Request-Method", c.ask[0])
		if c.ask[1] != "" {
			req.Header.Set("Access-Control-Request-Headers", c.ask[1])
		}
	}
	got, err := r.do(req)
	if err != nil || got.status != 200 || got.pod != pod || a.hits.Load()-before != int32(len(pod)) {
		t.Errorf("got %s %v, want 200 from pod %q", got, err, pod)
	}
	for h, want := range c.want {
		if g := strings.Join(got.header.Values("Access-Control-"+h), "|"); g != want {
			t.Errorf("%s: want %q, got %q", h, want, g)
		}
	}
}
