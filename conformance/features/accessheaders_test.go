package features

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

// askMarked sends a chat completion with x-test: mark, and without Content-Length if chunked.
func (s *site) askMarked(path, mark string, chunked bool) (reply, error) {
	req, err := request(s.Context(), s.url(path), question, append(secret("all"), "x-test", mark)...)
	if err != nil {
		return reply{}, err
	}
	if chunked {
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(question)), -1
	}
	return do(client(), req)
}

// onlyForServers requires that the server's last request is the marked one, without Penstock's
// internal headers.
func onlyForServers(mark string, received http.Header) error {
	if got := received.Get("x-test"); got != mark {
		return fmt.Errorf("the last request is %q, want %q", got, mark)
	}
	for name, values := range received {
		if strings.HasPrefix(strings.ToLower(name), "x-penstock-") {
			return fmt.Errorf("%s: the server receives %s: %s", mark, name, values)
		}
	}
	if got := received.Get("x-gateway-inference-fairness-id"); got != "default/all" {
		return fmt.Errorf(`%s: the fairness ID is %q, want "default/all"`, mark, got)
	}
	return nil
}

// No server receives the headers of Penstock's filters, for requests to a pool, its spill target,
// an import, a Service, a mirror or a gRPC server.
func TestAccessKeys_NoServerReceivesHeadersOfOurStages(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.server("a")
	s.server("b")
	s.ports["set"], s.ports["grpc"] = s.Port(), s.Port()
	var called atomic.Pointer[http.Header]
	s.h2c("calls", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		called.Store(&r.Header)
		w.Header().Set("content-type", "application/grpc")
		w.Header().Set("trailer", "grpc-status")
		w.WriteHeader(http.StatusOK)
		w.Header().Set("grpc-status", "0")
	}))
	s.restrict(map[string]string{"all": "owner: all"})
	s.up("accesskeys.yaml", with("models", "more", "spill", "mirror", "grpc"))
	check := func(path, server, received string) {
		t.Helper()
		for _, chunked := range []bool{false, true} {
			mark := fmt.Sprintf("%s by %s, chunked %t", path, server, chunked)
			s.becomes(mark, "200 "+server, func() string {
				got, err := s.askMarked(path, mark, chunked)
				return fmt.Sprint(got.status, " ", got.by()) + errorText(err)
			})
			s.Eventually(received+" receives it", func() error {
				return onlyForServers(mark, s.last(received).Headers)
			})
		}
	}
	check("/", "a", "a")
	check("/other", "b", "b")
	check("/far", "b", "b")
	check("/plain", "b", "b")
	check("/mirrored", "a", "b")

	conn, err := grpc.NewClient(s.address("grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("calls.example"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	s.Eventually("a gRPC server receives a call", func() error {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer sk-secret-all", "x-test", "gRPC")
		_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		if got := called.Load(); got != nil {
			return onlyForServers("gRPC", *got)
		}
		return fmt.Errorf("no call has arrived: %w", err)
	})

	a.Signal(syscall.SIGKILL)
	<-a.Ended()
	check("/", "b", "b")
}

// The gateway removes the key from each header in which a client may send it. Other credentials
// reach the server.
func TestAccessKeys_OtherCredentialsReachServersWithoutTheKey(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	key := s.keys("create", "alice")
	s.up("access.yaml", with("gate"))
	for name, c := range map[string]struct {
		send []string
		want string // Authorization at the server, which shows only "redacted"; "": none arrived
	}{
		"Bearer":              {bearer(key), ""},
		"bearer, with spaces": {[]string{"authorization", "bEARER   " + key + " "}, ""},
		"three headers":       {append(bearer(key), "x-api-key", key, "api-key", key), ""},
		"as another scheme":   {[]string{"x-api-key", key, "authorization", "Token " + key}, ""},
		"without a scheme":    {[]string{"api-key", key, "authorization", key}, ""},
		"Basic of a server":   {[]string{"x-api-key", key, "authorization", "Basic abc"}, "redacted"},
	} {
		send := append(c.send, "x-goog-api-key", "other", "proxy-authorization", "Basic def")
		if got := s.outcome("/", send...); got != "200" {
			t.Errorf(`%s: got %s, want "200"`, name, got)
			continue
		}
		received := s.last("a").Headers
		for header, values := range received {
			if strings.Contains(strings.Join(values, " "), key) {
				t.Errorf("%s: the server receives %s: %s, want no key", name, header, values)
			}
		}
		got := []string{received.Get("authorization"), received.Get("x-goog-api-key"),
			received.Get("proxy-authorization")}
		if want := []string{c.want, "other", "redacted"}; !slices.Equal(got, want) {
			t.Errorf("%s: the server receives the credentials %q, want %q", name, got, want)
		}
	}
}
