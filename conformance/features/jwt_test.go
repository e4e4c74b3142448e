package features

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// realm is an issuer of tokens with discovery, like Keycloak.
type realm struct {
	testing.TB
	url string

	mu            sync.Mutex
	kid           string
	key           ed25519.PrivateKey
	down          bool
	authorization []string // headers of the requests for its keys
}

// realm starts an issuer at port ${idp} of the YAML.
func (s *site) realm() *realm {
	s.Helper()
	r := &realm{TB: s.TB}
	s.backend("idp", r)
	r.url = "http://" + s.address("idp") + "/realm"
	r.rotate("one")
	return r
}

func (r *realm) rotate(kid string) {
	r.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		r.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kid, r.key = kid, key
}

func (r *realm) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = true
}

func (r *realm) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var answer any
	switch {
	case r.down:
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	case q.URL.Path == "/realm/.well-known/openid-configuration":
		answer = map[string]any{"issuer": r.url, "jwks_uri": strings.TrimSuffix(r.url, "realm") + "keys"}
	case q.URL.Path == "/keys":
		r.authorization = append(r.authorization, q.Header.Get("authorization"))
		answer = map[string]any{"keys": []any{
			map[string]any{"kty": "RSA", "use": "enc", "alg": "RSA-OAEP", "kid": "enc", "n": "AQAB", "e": "AQAB"},
			map[string]any{"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": r.kid,
				"x": base64.RawURLEncoding.EncodeToString(r.key.Public().(ed25519.PublicKey))},
		}}
	default:
		http.NotFound(w, q)
		return
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		r.Error(err)
	}
}

// token signs a token for alice. more overrides claims; nil removes one.
func (r *realm) token(more map[string]any) string {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	claims := map[string]any{"iss": r.url, "aud": []string{"account", "models"}, "sub": "f81d4fae-7dec-11d0",
		"azp": "webui", "typ": "Bearer", "scope": "openid email", "exp": time.Now().Add(time.Hour).Unix(),
		"iat": time.Now().Unix(), "preferred_username": "alice", "models": []string{"llama"},
		"realm_access": map[string]any{"roles": []string{"research"}}}
	maps.Copy(claims, more)
	text := part(r, map[string]any{"alg": "EdDSA", "kid": r.kid, "typ": "JWT"}) + "." + part(r, claims)
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(r.key, []byte(text)))
}

func part(t testing.TB, v map[string]any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// The issuer rotates its keys and becomes unreachable, without a change of Envoy's configuration.
func TestJWT_TokensOfTheIssuerPassAsTheirCaller(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a", "--lora", "sql")
	r, mallory := s.realm(), &realm{TB: t}
	mallory.rotate("one")
	mallory.url = r.url
	key := s.keys("create", "bob")
	s.flags = append(s.flags, "--access-log", filepath.Join(s.state, "access.log"))
	s.up("jwt.yaml", with("discovered"))
	alice := r.token(nil)
	outcome := func(token string) func() string {
		return func() string { return s.outcome("/", bearer(token)...) }
	}
	s.becomes("a token", "200", outcome(alice))
	forged := strings.Split(alice, ".")
	const sql = `{"model":"sql","messages":[{"role":"user","content":"hi"}]}`
	for _, c := range []struct{ name, token, body, want string }{
		{"as the issuer signed it", alice, question, "200"},
		{"an API key of the policy", key, question, "200"},
		{"no token", "", question, "401 invalid_api_key"},
		{"of another issuer", mallory.token(nil), question, "401 invalid_api_key"},
		{"with other claims", forged[0] + "." + part(t, map[string]any{"sub": "root"}) + "." + forged[2], question,
			"401 invalid_api_key"},
		{"without a signature", part(t, map[string]any{"alg": "none"}) + "." + forged[1] + ".", question,
			"401 invalid_api_key"},
		{"expired", r.token(map[string]any{"exp": time.Now().Add(-time.Second).Unix()}), question,
			"401 invalid_api_key"},
		{"without an end", r.token(map[string]any{"exp": nil}), question, "401 invalid_api_key"},
		{"for another audience", r.token(map[string]any{"aud": "account"}), question, "401 invalid_api_key"},
		{"of another realm", r.token(map[string]any{"iss": r.url + "2"}), question, "401 invalid_api_key"},
		{"without its owner", r.token(map[string]any{"preferred_username": nil}), question, "401 invalid_api_key"},
		{"for a model that it names", alice, question, "200"},
		{"for another model", alice, sql, "403 model_not_permitted"},
		{"without models", r.token(map[string]any{"models": nil}), question, "403 model_not_permitted"},
		{"for all models", r.token(map[string]any{"models": []string{"*"}}), sql, "200"},
	} {
		if got := s.result("/", c.body, bearer(c.token)...); got != c.want {
			t.Errorf("a token %s: got %s, want %s", c.name, got, c.want)
		}
	}
	req, err := request(t.Context(), s.base()+"/v1/models", "", bearer(alice)...)
	if err != nil {
		t.Fatal(err)
	}
	req.Method = http.MethodGet
	if got, err := do(client(), req); err != nil || !strings.Contains(got.body, "llama") ||
		strings.Contains(got.body, "sql") {
		t.Errorf("the list of models: got %d %s %v, want llama and no sql", got.status, got.body, err)
	}
	s.answered("/", question, bearer(alice)...)
	headers := s.last("a").Headers
	for name, values := range headers {
		if strings.Contains(strings.Join(values, " "), forged[2]) {
			t.Errorf("the server receives the token in %s", name)
		}
	}
	if got := headers.Get("x-gateway-inference-fairness-id"); got != "default/alice" {
		t.Errorf(`the request counts for %q, want "default/alice"`, got)
	}
	s.Eventually("the access log has the caller", func() error {
		log, err := os.ReadFile(filepath.Join(s.state, "access.log"))
		return errors.Join(err, because(strings.Contains(string(log), `"caller":"default/alice"`), string(log)))
	})
	s.explainsTokens(alice, forged)
	s.keysOfTheIssuerChange(r, alice)
	if strings.Contains(s.output(), forged[2]) {
		t.Error("penstock logs the token")
	}
}

func (s *site) explainsTokens(alice string, forged []string) {
	s.Helper()
	url := s.base() + "/v1/chat/completions"
	for _, c := range []struct{ what, token, model, want string }{
		{"as the issuer signed it", alice, "llama", "passes AccessPolicy default/clients as default/alice"},
		{"for another model", alice, "sql", `403 model_not_permitted: it does not name model "sql"`},
		{"with other claims", forged[0] + "." + part(s, map[string]any{"sub": "root"}) + "." + forged[2], "llama",
			"401 invalid_api_key: AccessPolicy default/clients: no key of its issuer has signed it"},
		{"in another form", "sk-" + forged[2], "llama", "has no JSON Web Token"},
	} {
		file := filepath.Join(s.state, "token")
		if err := os.WriteFile(file, []byte(c.token+"\n"), 0o600); err != nil {
			s.Fatal(err)
		}
		got, err := s.command("explain", url, "--token-file", file, "--model", c.model)
		got += errorText(err)
		if !strings.Contains(got, c.want) || strings.Contains(got, forged[2]) {
			s.Errorf("explain of a token %s: got %s, want %s and no token", c.what, got, c.want)
		}
	}
}

func (s *site) keysOfTheIssuerChange(r *realm, alice string) {
	s.Helper()
	before := s.responses()
	r.rotate("two")
	next := r.token(nil)
	s.becomes("a token of a new key", "200", func() string { return s.outcome("/", bearer(next)...) })
	if got := s.outcome("/", bearer(alice)...); got != "401 invalid_api_key" {
		s.Errorf(`a token of the key before: got %s, want "401 invalid_api_key"`, got)
	}
	r.stop()
	r.rotate("three")
	unknown := r.token(nil)
	s.Eventually("status reports that the issuer is down", func() error {
		if got := s.outcome("/", bearer(unknown)...); got != "401 invalid_api_key" {
			return errors.New(got)
		}
		got := s.status()
		return because(strings.Contains(got, "spec.jwt.issuer: the issuer's keys could not be fetched again"), got)
	})
	if got := s.outcome("/", bearer(next)...); got != "200" {
		s.Errorf(`while the issuer is down: got %s, want "200"`, got)
	}
	if after := s.responses(); after != before {
		s.Errorf("responses of xDS: got %d, want %d as before", after, before)
	}
}

// Keys are fetched only from hosts that the operator allows, with the policy's token.
func TestJWT_KeysAreFetchedFromAllowedHostsAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	r := s.realm()
	s.flags = append(s.flags, "--fetch-hosts", "sso.example.com")
	s.up("jwt.yaml", with("uri"))
	s.reports(fmt.Sprintf("spec.jwt.jwks.uri: no token is let in without the issuer's keys: host %s is not in "+
		"--fetch-hosts", s.address("idp")))
	if got := s.outcome("/", bearer(r.token(nil))...); got != "401 invalid_api_key" {
		t.Errorf(`without keys: got %s, want "401 invalid_api_key"`, got)
	}
	s.stop()
	s.flags = []string{"--fetch-hosts", s.address("idp")}
	s.up("jwt.yaml", with("uri"))
	s.becomes("a token", "200", func() string { return s.outcome("/", bearer(r.token(nil))...) })
	if got := s.last("a").Headers.Get("x-gateway-inference-fairness-id"); got != "default/f81d4fae-7dec-11d0" {
		t.Errorf(`the request counts for %q, want "default/f81d4fae-7dec-11d0"`, got)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, got := range r.authorization {
		if got != "Bearer fetch-token" {
			t.Errorf(`the issuer receives authorization %q, want "Bearer fetch-token"`, got)
		}
	}
	if len(r.authorization) == 0 {
		t.Error("nothing was fetched")
	}
}
