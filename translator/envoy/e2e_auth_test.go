package envoy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	statusv1 "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/penstock-project/penstock/translator/model"
)

func TestExternalAuth_HTTPServiceDeniesRequests(t *testing.T) {
	t.Parallel()
	a := startPod(t, "a", 200)
	asked := &lastAsked{}
	guard := (&pod{name: "guard"}).serve(t, asked)
	r := newRig(t, closedPort(t))
	r.cluster(model.Cluster{Name: named("a"), Protocol: model.HTTP1}, endpoints(a.address)...)
	r.cluster(model.Cluster{Name: named("guard"), Protocol: model.HTTP1}, endpoints(guard.address)...)
	r.cluster(model.Cluster{Name: named("gone"), Protocol: model.HTTP1}, endpoints(closedPort(t))...)
	add := func(host string, auth model.ExternalAuth, action model.Action) {
		action.Auth = &auth
		if action.Redirect == nil {
			action.Forward = &model.Forward{Backends: []model.WeightedBackend{{Cluster: named("a"), Weight: 1}}}
		}
		r.host(host, model.Route{Name: host, Match: prefix("/"), Action: &action})
	}
	add("plain", model.ExternalAuth{Cluster: named("guard")}, model.Action{})
	add("chosen",
		model.ExternalAuth{Cluster: named("guard"), Path: "/check", Headers: []string{"x-more"},
			Copied: []string{"x-team"}, MaxBody: 1000}, model.Action{})
	add("redirect", model.ExternalAuth{Cluster: named("guard")},
		model.Action{Redirect: &model.Redirect{Host: "o", Port: 80, Code: 302}})
	add("gone", model.ExternalAuth{Cluster: named("gone")}, model.Action{})
	r.start()
	ask := func(host, token string, prompt string) answer {
		t.Helper()
		req := r.request("POST", host, "/v1/chat?q=1", []byte(prompt))
		req.Header.Set("X-More", "more")
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		got, err := r.do(req)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, host := range []string{"plain", "chosen", "redirect"} {
		if got := ask(host, "bad", "p"); got.status != 401 || got.body != "who are you?" ||
			got.header.Get("Www-Authenticate") != "Bearer" || a.hits.Load() != 0 {
			t.Errorf(`%s, with a bad token: got %s %v, want 401 "who are you?", and no request at the pod`,
				host, got, got.header)
		}
	}
	if got := ask("gone", "good", "p"); got.status != 503 || a.hits.Load() != 0 {
		t.Errorf("without a service to ask: got %s, want 503, and no request at the pod", got)
	}
	if got := ask("redirect", "good", "p"); got.status != 302 {
		t.Errorf("redirect: got %s, want 302", got)
	}
	got := ask("plain", "good", "the prompt")
	if got.body != digest([]byte("the prompt")) || got.header.Get("Echo-X-User") != "ali" ||
		got.header.Get("Echo-X-Team") != "red" || got.header.Get("Echo-Host") != "plain" {
		t.Errorf("allowed: got %s %v, want the prompt at the pod, user ali and team red", got, got.header)
	}
	seen := asked.request.Load()
	if seen.Method != "POST" || seen.URL.RequestURI() != "/v1/chat?q=1" || seen.Host != "plain" ||
		asked.body.Load() != "" || seen.ContentLength != 0 || seen.Header.Get("X-More") != "" {
		t.Errorf("the service was asked %s %s%s with %q, %v; want POST plain/v1/chat?q=1 without body or X-More",
			seen.Method, seen.Host, seen.URL.RequestURI(), asked.body.Load(), seen.Header)
	}
	got = ask("chosen", "good", "the prompt")
	if got.body != digest([]byte("the prompt")) || got.header.Get("Echo-X-User") != "" ||
		got.header.Get("Echo-X-Team") != "red" {
		t.Errorf("allowed: got %s %v, want the prompt at the pod, team red and no user", got, got.header)
	}
	seen = asked.request.Load()
	if seen.URL.RequestURI() != "/check/v1/chat?q=1" || asked.body.Load() != "the prompt" || seen.ContentLength != 10 ||
		seen.Header.Get("X-More") != "more" {
		t.Errorf("the service was asked for %s with %q, %v; want /check/v1/chat?q=1 with the prompt and X-More",
			seen.URL.RequestURI(), asked.body.Load(), seen.Header)
	}
	if got := ask("chosen", "good", strings.Repeat("long", 1000)); got.status != 413 ||
		!openAIError(got.body, "body_too_large") ||
		!strings.Contains(got.body, "or less by a picker or an authorization service") {
		t.Errorf("a body that the service may not be sent: got %s, want 413 with body_too_large", got)
	}
}

type lastAsked struct {
	request atomic.Pointer[http.Request]
	body    atomic.Value
}

func (asked *lastAsked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	asked.body.Store(string(b))
	asked.request.Store(r)
	if r.Header.Get("Authorization") != "Bearer good" {
		w.Header().Set("Www-Authenticate", "Bearer")
		w.WriteHeader(401)
		fmt.Fprint(w, "who are you?")
		return
	}
	w.Header().Set("X-User", "ali")
	w.Header().Set("X-Team", "red")
	fmt.Fprint(w, "some words that are not the request's")
}

type grpcGuard struct {
	authv3.UnimplementedAuthorizationServer
	last atomic.Pointer[authv3.AttributeContext_HttpRequest]
}

func (g *grpcGuard) Check(_ context.Context, in *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	r := in.Attributes.Request.Http
	g.last.Store(r)
	if r.Headers["x-word"] != "sesame" {
		return &authv3.CheckResponse{Status: &statusv1.Status{Code: int32(codes.PermissionDenied)}}, nil
	}
	return &authv3.CheckResponse{
		Status: &statusv1.Status{Code: int32(codes.OK)},
		HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{
			Headers: []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: "x-user", Value: "ali"}}},
		}},
	}, nil
}

func TestExternalAuth_GRPCServiceDeniesRequests(t *testing.T) {
	t.Parallel()
	a, guard := startPod(t, "a", 200), &grpcGuard{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	authv3.RegisterAuthorizationServer(server, guard)
	go server.Serve(l)
	t.Cleanup(server.Stop)
	r := newRig(t, closedPort(t))
	r.cluster(model.Cluster{Name: named("a"), Protocol: model.HTTP1}, endpoints(a.address)...)
	r.cluster(model.Cluster{Name: named("guard"), Protocol: model.H2C},
		endpoints(netip.MustParseAddrPort(l.Addr().String()))...)
	for host, auth := range map[string]model.ExternalAuth{
		"all":  {GRPC: true, Cluster: named("guard")},
		"some": {GRPC: true, Cluster: named("guard"), Headers: []string{"x-word"}, MaxBody: 100},
	} {
		r.host(host,
			model.Route{Name: host, Match: prefix("/"), Action: &model.Action{Auth: &auth, Forward: &model.Forward{
				Backends: []model.WeightedBackend{{Cluster: named("a"), Weight: 1}},
			}}})
	}
	r.start()
	for _, c := range []struct {
		host, word string
		status     int
		more, body string // header and body that the service receives
	}{
		{"all", "", 403, "more", ""}, {"all", "sesame", 200, "more", ""}, {"some", "sesame", 200, "", "prompt"},
		{"some", "other", 403, "", "prompt"},
	} {
		req := r.request("POST", c.host, "/", []byte("prompt"))
		req.Header.Set("X-Word", c.word)
		req.Header.Set("X-More", "more")
		got, err := r.do(req)
		if err != nil || got.status != c.status || (got.header.Get("Echo-X-User") == "ali") != (c.status == 200) {
			t.Errorf("%s %q: got %s %v, want %d, with user ali if 200", c.host, c.word, got, err, c.status)
		}
		seen := guard.last.Load()
		if seen.Headers["x-more"] != c.more || string(seen.RawBody)+seen.Body != c.body {
			t.Errorf("%s %q: the service saw %v, want X-More %q and body %q", c.host, c.word, seen, c.more, c.body)
		}
	}
}
