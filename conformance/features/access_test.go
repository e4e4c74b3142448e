package features

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func (s *site) keys(args ...string) string {
	s.Helper()
	var errs strings.Builder
	cmd := exec.CommandContext(s.Context(), binary, append(append([]string{"keys"}, args...), "-f", s.Files)...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		s.Fatalf("penstock keys %v: %v\n%s", args, err, &errs)
	}
	return strings.TrimSpace(string(out))
}

// outcome returns a response's status, with the reason if Penstock itself answered.
func (s *site) outcome(path string, headers ...string) string {
	got, err := s.ask(path, question, headers...)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(fmt.Sprint(got.status, " ", got.header.Get("x-penstock-reason")))
}

// responses returns the number of xDS responses so far.
func (s *site) responses() (sum int) {
	s.Helper()
	for line := range strings.Lines(s.metrics()) {
		if series, value, _ := strings.Cut(line, " "); strings.HasPrefix(series, "penstock_xds_responses_total{") {
			n, err := strconv.Atoi(strings.TrimSpace(value))
			if err != nil {
				s.Fatal(line, err)
			}
			sum += n
		}
	}
	return sum
}

func bearer(key string) []string { return []string{"authorization", "Bearer " + key} }

// penstock keys create stores only a key's hash. Servers receive neither the key nor identity
// headers that a client sends.
func TestAccess_GatewayNeedsAKeyThatNoServerReceives(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	key := s.keys("create", "alice", "--owner", "Alice")
	if stored, err := os.ReadFile(filepath.Join(s.Files, "apikey-alice.yaml")); err != nil ||
		strings.Contains(string(stored), strings.TrimPrefix(key, "sk-ps-")) || !strings.HasPrefix(key, "sk-ps-") {
		t.Fatalf("the stored APIKey: got %s, %v, want one without the key %s", stored, err, key)
	}
	s.flags = append(s.flags, "--access-log", filepath.Join(s.state, "access.log"))
	s.up("access.yaml", with("gate"))
	forged := []string{"x-penstock-caller", "default/root", "x-gateway-inference-fairness-id", "root",
		"x-llm-d-inference-fairness-id", "root", "x-llm-d-inference-objective", "first"}
	for _, c := range []struct {
		headers []string
		want    string
	}{
		{nil, "401 invalid_api_key"},
		{bearer("sk-ps-wrong"), "401 invalid_api_key"},
		{bearer(key + "x"), "401 invalid_api_key"},
		{[]string{"authorization", key}, "401 invalid_api_key"},
		{forged, "401 invalid_api_key"},
		{bearer(key), "200"},
		{[]string{"x-api-key", key}, "200"},
		{[]string{"api-key", key}, "200"},
		{append(bearer(key), "x-api-key", "another"), "401 invalid_api_key"},
	} {
		if got := s.outcome("/", c.headers...); got != c.want {
			t.Errorf("%v: %s, want %s", c.headers, got, c.want)
		}
	}
	text, err := s.command("explain", s.url("/"))
	if err != nil || !strings.Contains(text, "401 invalid_api_key without an API key; with one that the policies let "+
		"in: forwarded\n") || !strings.Contains(text, "add --key NAME") {
		t.Errorf("explain without a key: got %v\n%s\nwant 401 invalid_api_key and the hint to add --key NAME", err,
			text)
	}
	s.answered("/", question, append(bearer(key), forged...)...)
	received := s.last("a").Headers
	for name, values := range received {
		if text := strings.Join(values, " "); strings.Contains(text, key) || strings.Contains(text, "root") {
			t.Errorf("the server receives %s: %s, want neither the key nor a forged caller", name, text)
		}
	}
	if got := received.Get("x-gateway-inference-fairness-id"); got != "default/Alice" {
		t.Errorf(`the request counts for %q, want "default/Alice"`, got)
	}
	s.Eventually("the access log has the callers", func() error {
		log, err := os.ReadFile(filepath.Join(s.state, "access.log"))
		return errors.Join(err, because(strings.Contains(string(log), `"caller":"default/Alice"`), string(log)))
	})
	for _, page := range []string{"/v1/objects", "/v1/config_dump"} {
		if got, err := s.read(overSocket(filepath.Join(s.state, "api.sock")), "http://penstock"+page); err == nil &&
			strings.Contains(got.body, key) {
			t.Errorf("%s has the key", page)
		}
	}
	if strings.Contains(s.output(), key) {
		t.Error("penstock logs the key")
	}
}

func TestAccess_DenialsHaveTheFormatOfTheAPI(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	s.keys("create", "alice")
	s.up("access.yaml", with("gate"))
	for path, want := range map[string]string{
		"/v1/chat/completions": `"code":"invalid_api_key"`, "/v1/messages": `"type":"authentication_error"`,
		"/v1/models": `"code":"invalid_api_key"`,
	} {
		got, err := s.post(s.base()+path, question)
		if err != nil || got.status != http.StatusUnauthorized || !strings.Contains(got.body, want) ||
			got.header.Get("content-type") != "application/json" || got.header.Get("www-authenticate") != "Bearer" {
			t.Errorf("%s: got %d %v %s %v, want 401 as JSON with %s and www-authenticate Bearer", path, got.status,
				got.header, got.body, err, want)
		}
	}
	got, err := s.post(s.base()+"/pkg.Service/Method", "", "content-type", "application/grpc")
	if err != nil || got.header.Get("grpc-status") != "16" {
		t.Errorf("gRPC: got %+v %v, want grpc-status 16", got, err)
	}
}

// Revoked, rotated and new keys are in force without an xDS response.
func TestAccess_ChangedKeyTouchesNoXDSResource(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	first := s.keys("create", "alice")
	s.up("access.yaml", with("gate"))
	becomes := func(key, want string) {
		t.Helper()
		s.Eventually("a request is answered "+want, func() error {
			got := s.outcome("/", bearer(key)...)
			return because(got == want, got)
		})
	}
	becomes(first, "200")
	before := s.responses()
	second := s.keys("rotate", "alice")
	becomes(second, "200")
	becomes(first, "200")
	s.keys("rotate", "alice", "--finish")
	becomes(first, "401 invalid_api_key")
	becomes(second, "200")
	s.keys("revoke", "alice")
	becomes(second, "401 invalid_api_key")
	rotate := exec.CommandContext(t.Context(), binary, "keys", "rotate", "alice", "-f", s.Files)
	if out, err := rotate.CombinedOutput(); err == nil || !strings.Contains(string(out), "default/alice is disabled") {
		t.Errorf("rotate of a disabled APIKey: got %v\n%s\nwant an error that default/alice is disabled", err, out)
	}
	third := s.keys("create", "bob")
	becomes(third, "200")
	list := s.keys("list", "--state", s.state)
	used := regexp.MustCompile(`default/alice +alice +disabled +1 +all +never +[1-9]\d* +\d{4}-\d\d-\d\dT\d\dZ\n` +
		`default/bob +bob +valid +1 +all +never +[1-9]\d* +\d{4}-`)
	if !used.MatchString(list) {
		t.Errorf("penstock keys list: got\n%s\nwant alice disabled, bob valid, and tokens and a last use of both", list)
	}
	s.keys("rotate", "bob")
	rotate = exec.CommandContext(t.Context(), binary, "keys", "rotate", "bob", "-f", s.Files)
	if out, err := rotate.CombinedOutput(); err == nil || !strings.Contains(string(out), "--finish first") {
		t.Errorf("a second rotate: got %v\n%s\nwant an error that names --finish", err, out)
	}
	if after := s.responses(); after != before {
		t.Errorf("responses of xDS: got %d, want %d as before", after, before)
	}
}

func TestAccess_EachPolicyAboveARouteMustLetTheRequestIn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	alice, bob := s.keys("create", "alice", "--label", "team=research"), s.keys("create", "bob")
	s.up("access.yaml", with("gate", "team", "pool"))
	for _, c := range []struct{ path, key, want string }{
		{"/", alice, "200"}, {"/", bob, "200"}, {"/team", alice, "200"}, {"/team", bob, "403 not_permitted"},
		{"/team", "", "401 invalid_api_key"},
	} {
		if got := s.outcome(c.path, bearer(c.key)...); got != c.want {
			t.Errorf("%s: %s, want %s", c.path, got, c.want)
		}
	}
	s.write("access.yaml", with("pool")) // the remaining policy applies to all routes to the pool
	s.Eventually("the team's policy is gone", func() error {
		got := s.outcome("/team", bearer(bob)...)
		return because(got == "200", got)
	})
	for _, path := range []string{"/", "/team"} {
		if got := s.outcome(path); got != "401 invalid_api_key" {
			t.Errorf(`%s: %s, want "401 invalid_api_key"`, path, got)
		}
	}
}

// When a policy is added, a stream in flight continues to its end, and new requests need a key.
func TestAccess_AttachedPolicyCutsNoStream(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a", "--inter-token-latency", "20ms")
	s.up("access.yaml")
	s.served("/")
	result := s.streaming(200)
	s.write("access.yaml", with("gate"))
	s.Eventually("requests need a key", func() error {
		got := s.outcome("/")
		return because(got == "401 invalid_api_key", got)
	})
	select {
	case err := <-result:
		t.Fatalf("the stream ended with %v, want it open until the policy is in force", err)
	default:
	}
	if err := <-result; err != nil {
		t.Error("the stream is cut:", err)
	}
	s.write("access.yaml")
	s.answers("/", http.StatusOK)
}
