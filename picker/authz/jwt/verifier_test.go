package jwt_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/authz/jwks"
	"github.com/penstock-project/penstock/picker/authz/jwt"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// object is a JSON object.
type object map[string]any

// with returns the object with another member; nil removes it.
func (o object) with(name string, value any) object {
	out := object{}
	for k, v := range o {
		out[k] = v
	}
	if out[name] = value; value == nil {
		delete(out, name)
	}
	return out
}

func encode(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

func marshal(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return out
}

// signed returns a token. sign signs its first two parts.
func signed(header, claims object, sign func(text []byte) []byte) string {
	text := encode(marshal(header)) + "." + encode(marshal(claims))
	return text + "." + encode(sign([]byte(text)))
}

// issuer has one key of each type.
type issuer struct {
	ed  ed25519.PrivateKey
	ec  *ecdsa.PrivateKey
	rsa *rsa.PrivateKey
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	i := &issuer{}
	var errs [3]error
	_, i.ed, errs[0] = ed25519.GenerateKey(rand.Reader)
	i.ec, errs[1] = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	i.rsa, errs[2] = rsa.GenerateKey(rand.Reader, 2048)
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return i
}

func (i *issuer) set() string {
	point, err := i.ec.PublicKey.Bytes()
	if err != nil {
		panic(err)
	}
	return string(marshal(object{"keys": []object{
		{"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": encode(i.ed.Public().(ed25519.PublicKey))},
		{"kty": "EC", "crv": "P-256", "kid": "ec", "use": "sig", "x": encode(point[1:33]), "y": encode(point[33:])},
		{"kty": "RSA", "kid": "rsa", "n": encode(i.rsa.N.Bytes()), "e": encode(big.NewInt(int64(i.rsa.E)).Bytes())},
	}}))
}

func (i *issuer) signEd(text []byte) []byte { return ed25519.Sign(i.ed, text) }

func (i *issuer) signEC(text []byte) []byte {
	hash := sha256.Sum256(text)
	r, s, err := ecdsa.Sign(rand.Reader, i.ec, hash[:])
	if err != nil {
		panic(err)
	}
	out := make([]byte, 64)
	r.FillBytes(out[:32])
	s.FillBytes(out[32:])
	return out
}

func (i *issuer) signRSA(text []byte) []byte {
	hash := sha256.Sum256(text)
	out, err := rsa.SignPKCS1v15(rand.Reader, i.rsa, crypto.SHA256, hash[:])
	if err != nil {
		panic(err)
	}
	return out
}

// token signs claims with the Ed25519 key.
func (i *issuer) token(claims object) string {
	return signed(object{"alg": "EdDSA", "kid": "ed", "typ": "JWT"}, claims, i.signEd)
}

const issuerURL = "https://sso.example/realms/models"

// valid are claims as Keycloak writes them.
var valid = object{
	"iss": issuerURL, "aud": []string{"account", "models"}, "sub": "f81d4fae-7dec", "exp": noon.Add(time.Minute).Unix(),
	"iat": noon.Unix(), "azp": "webui", "scope": "openid email", "preferred_username": "alice",
	"realm_access": object{"roles": []string{"research", "offline_access"}}, "groups": []string{"/team-a"},
	"models": []string{"llama", "team-*"}, "tier": "batch",
}

var claimsOf = jwt.Claims{Owner: "preferred_username", Groups: "realm_access.roles", Models: "models",
	Objective: "tier"}

// keys are the keys of one source. fetch, if not nil, replaces them at a refresh.
type keys struct {
	mu        sync.Mutex
	set       *jwks.Set
	fetch     *jwks.Set
	refreshes int
	pending   bool
}

func (k *keys) Get(jwks.Source) *jwks.Set {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.set
}

func (k *keys) Refresh(context.Context, jwks.Source) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refreshes++; k.fetch != nil {
		k.set = k.fetch
	}
	return k.fetch != nil
}

func (k *keys) Pending(jwks.Source) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pending
}

func parse(t testing.TB, text string) *jwks.Set {
	t.Helper()
	s, err := jwks.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func rule(claims jwt.Claims) *jwt.Rule {
	return &jwt.Rule{Namespace: "infra", Source: jwks.Source{Issuer: issuerURL}, Audiences: []string{"models", "other"},
		Claims: claims}
}

func TestVerify_TokenOfTheIssuerDescribesItsCaller(t *testing.T) {
	i := newIssuer(t)
	v := jwt.New(&keys{set: parse(t, i.set())})
	for name, token := range map[string]string{
		"EdDSA":       i.token(valid),
		"ES256":       signed(object{"alg": "ES256", "kid": "ec"}, valid, i.signEC),
		"RS256":       signed(object{"alg": "RS256", "kid": "rsa"}, valid, i.signRSA),
		"without kid": signed(object{"alg": "RS256"}, valid, i.signRSA),
		"one aud":     i.token(valid.with("aud", "models")),
		"nbf":         i.token(valid.with("nbf", noon.Add(30*time.Second).Unix())),
	} {
		id, err := v.Verify(t.Context(), rule(claimsOf), token, noon)
		if err != nil {
			t.Errorf("%s: got %v, want a verified token", name, err)
			continue
		}
		if id.Owner != "alice" || !slices.Equal(id.Groups, []string{"research", "offline_access"}) ||
			!slices.Equal(id.Models, []string{"llama", "team-*"}) || id.Objective != "batch" ||
			!id.Expires.Equal(noon.Add(time.Minute)) {
			t.Errorf("%s: got %+v, want every claim of alice, and an end after a minute", name, id)
		}
	}
	id, err := v.Verify(t.Context(), rule(jwt.Claims{Owner: "sub"}), i.token(valid), noon)
	if err != nil || id.Owner != "f81d4fae-7dec" || id.Models != nil || id.Groups != nil || id.Objective != "" {
		t.Errorf("with sub alone: got %+v %v, want the owner f81d4fae-7dec and nothing else", id, err)
	}
}

// Verify rejects every token that differs from a valid one in one respect.
func TestVerify_EverythingElseIsNoToken(t *testing.T) {
	i, mallory := newIssuer(t), newIssuer(t)
	k := &keys{set: parse(t, i.set())}
	v := jwt.New(k)
	good := i.token(valid)
	part := strings.Split(good, ".")
	header := object{"alg": "EdDSA", "kid": "ed"}
	public := i.ed.Public().(ed25519.PublicKey)
	symmetric := func(secret []byte) func([]byte) []byte {
		return func(text []byte) []byte {
			m := hmac.New(sha256.New, secret)
			m.Write(text)
			return m.Sum(nil)
		}
	}
	none := func([]byte) []byte { return nil }
	embedded := object{"kty": "OKP", "crv": "Ed25519", "x": encode(mallory.ed.Public().(ed25519.PublicKey))}
	for name, token := range map[string]string{
		"empty":                 "",
		"no token":              "sk-ps-x",
		"of another issuer":     mallory.token(valid),
		"alg none":              signed(object{"alg": "none"}, valid, none),
		"no alg":                signed(object{"kid": "ed"}, valid, i.signEd),
		"without its signature": part[0] + "." + part[1] + ".",
		"two parts":             part[0] + "." + part[1],
		"four parts":            good + ".x",
		"other claims":          part[0] + "." + encode(marshal(valid.with("sub", "root"))) + "." + part[2],
		"another header":        encode(marshal(object{"alg": "EdDSA"})) + "." + part[1] + "." + part[2],
		"HS256 with our key":    signed(object{"alg": "HS256", "kid": "ed"}, valid, symmetric(public)),
		"HS256 with our set":    signed(object{"alg": "HS256"}, valid, symmetric([]byte(i.set()))),
		"its own key":           signed(header.with("jwk", embedded), valid, mallory.signEd),
		"a key at a URL":        signed(header.with("jku", "https://evil.example"), valid, mallory.signEd),
		"of another algorithm":  signed(object{"alg": "RS256", "kid": "ed"}, valid, i.signEd),
		"of another key":        signed(object{"alg": "EdDSA", "kid": "ec"}, valid, i.signEd),
		"crit":                  signed(header.with("crit", []string{"exp"}).with("exp", 1), valid, i.signEd),
		"a JSON list":           signedText(i, "[]"), "null": signedText(i, "null"), "no JSON": signedText(i, "x"),
		"other iss":       i.token(valid.with("iss", issuerURL+"/")),
		"no iss":          i.token(valid.with("iss", nil)),
		"iss a list":      i.token(valid.with("iss", []string{issuerURL})),
		"ISS":             i.token(valid.with("iss", nil).with("ISS", issuerURL)),
		"other aud":       i.token(valid.with("aud", "account")),
		"no aud":          i.token(valid.with("aud", nil)),
		"aud a number":    i.token(valid.with("aud", []any{1, nil, object{}})),
		"no exp":          i.token(valid.with("exp", nil)),
		"exp text":        i.token(valid.with("exp", "4000000000")),
		"exp negative":    i.token(valid.with("exp", -1)),
		"expired":         i.token(valid.with("exp", noon.Unix())),
		"early":           i.token(valid.with("nbf", noon.Add(2*time.Minute).Unix())),
		"nbf text":        i.token(valid.with("nbf", "0")),
		"no owner":        i.token(valid.with("preferred_username", nil)),
		"owner empty":     i.token(valid.with("preferred_username", "")),
		"owner a number":  i.token(valid.with("preferred_username", 7)),
		"owner long":      i.token(valid.with("preferred_username", strings.Repeat("a", 129))),
		"owner encoded":   i.token(valid.with("preferred_username", strings.Repeat("ü", 30))),
		"larger than all": i.token(valid.with("x", strings.Repeat("x", 20_000))),
	} {
		if id, err := v.Verify(t.Context(), rule(claimsOf), token, noon); err == nil {
			t.Errorf("%s counts: got %+v, want an error", name, id)
		}
	}
	if k.refreshes != 0 {
		t.Errorf("%d fetches, want 0: the keys are known", k.refreshes)
	}
	if _, err := v.Verify(t.Context(), rule(claimsOf), good, noon); err != nil {
		t.Error("the token itself:", err)
	}
}

// signedText returns a token with any payload.
func signedText(i *issuer, payload string) string {
	text := encode(marshal(object{"alg": "EdDSA", "kid": "ed"})) + "." + encode([]byte(payload))
	return text + "." + encode(i.signEd([]byte(text)))
}

// Owners are percent-encoded: different owners stay different, and are valid in a header.
func TestVerify_OwnersAreEncoded(t *testing.T) {
	i := newIssuer(t)
	v := jwt.New(&keys{set: parse(t, i.set())})
	for owner, want := range map[string]string{
		"alice@example.com": "alice@example.com", "auth0|5f7c": "auth0%7C5f7c", "a b": "a%20b", "a%20b": "a%2520b",
		"a\r\nx-evil: 1": "a%0D%0Ax-evil:%201", "repo:org/name": "repo:org%2Fname", "zoë": "zo%C3%AB", "a,b": "a%2Cb",
	} {
		id, err := v.Verify(t.Context(), rule(claimsOf), i.token(valid.with("preferred_username", owner)), noon)
		if err != nil || id.Owner != want {
			t.Errorf("%q: got %+v %v, want %q", owner, id, err, want)
		}
	}
}

// If the claim with the models is missing, the caller may use no model.
func TestVerify_MissingModelsPermitNone(t *testing.T) {
	i := newIssuer(t)
	v := jwt.New(&keys{set: parse(t, i.set())})
	many := make([]string, 100)
	for n := range many {
		many[n] = fmt.Sprint("m", n)
	}
	for _, c := range []struct {
		models any
		want   int
	}{
		{nil, 0}, {7, 0}, {[]any{7, "a", "a", nil, ""}, 1}, {"a b", 2}, {many, 64},
		{[]string{strings.Repeat("a", 257)}, 0},
	} {
		id, err := v.Verify(t.Context(), rule(claimsOf), i.token(valid.with("models", c.models)), noon)
		if err != nil || id.Models == nil || len(id.Models) != c.want {
			t.Errorf("%v: got %+v %v, want %d models", c.models, id, err, c.want)
		}
	}
	without := jwt.Claims{Owner: "preferred_username"}
	if id, err := v.Verify(t.Context(), rule(without), i.token(valid.with("", "batch")), noon); err != nil ||
		id.Objective != "" || id.Groups != nil || id.Models != nil {
		t.Errorf("a claim without a name, which no policy names: got %+v %v, want no objective, groups or models",
			id, err)
	}
	token := i.token(valid.with("realm_access.roles", "direct").with("tier", "NOT A NAME"))
	if id, err := v.Verify(t.Context(), rule(claimsOf), token, noon); err != nil ||
		!slices.Equal(id.Groups, []string{"direct"}) || id.Objective != "" {
		t.Errorf("a claim with dots in its name: got %+v %v, want the group direct and no objective", id, err)
	}
}

// A verified token is valid exactly until its exp, even if the clock moves back, and only while the
// set has its key.
func TestVerify_RemembersUntilExpOrAnotherSet(t *testing.T) {
	i := newIssuer(t)
	k := &keys{set: parse(t, i.set())}
	v, r, token := jwt.New(k), rule(claimsOf), i.token(valid.with("nbf", noon.Unix()))
	counts := func(what string, now time.Time, want bool) {
		t.Helper()
		if _, err := v.Verify(t.Context(), r, token, now); (err == nil) != want {
			t.Errorf("%s: got %v, want verified: %t", what, err, want)
		}
	}
	counts("before nbf, by more than the skew", noon.Add(-time.Hour), false)
	counts("at first", noon, true)
	counts("again", noon.Add(59*time.Second), true)
	counts("at its exp", noon.Add(time.Minute), false)
	counts("after the clock was set back", noon, true)
	other, _ := jwks.Parse([]byte(newIssuer(t).set()))
	k.set = other
	counts("with the keys of another issuer", noon, false)
	k.set = nil
	counts("without keys", noon, false)
	k.set = parse(t, i.set())
	counts("with its keys again", noon, true)
	if _, err := v.Verify(t.Context(), &jwt.Rule{Source: r.Source, Audiences: []string{"strangers"}, Claims: r.Claims},
		token, noon); err == nil {
		t.Error("the token counts for another policy, which it does not fit")
	}
}

func TestVerify_UnknownKeyIsFetched(t *testing.T) {
	i := newIssuer(t)
	k := &keys{fetch: parse(t, i.set())}
	v := jwt.New(k)
	if _, err := v.Verify(t.Context(), rule(claimsOf), i.token(valid), noon); err != nil || k.refreshes != 1 {
		t.Error("before the first set:", err, k.refreshes)
	}
	rotated := signed(object{"alg": "EdDSA", "kid": "new"}, valid, i.signEd)
	k.fetch = parse(t, strings.ReplaceAll(i.set(), `"ed"`, `"new"`))
	if _, err := v.Verify(t.Context(), rule(claimsOf), rotated, noon); err != nil || k.refreshes != 2 {
		t.Error("a new key:", err, k.refreshes)
	}
	k.fetch = nil
	if _, err := v.Verify(t.Context(), rule(claimsOf), i.token(valid), noon); err == nil || k.refreshes != 3 {
		t.Error("a key that the issuer has removed:", err, k.refreshes)
	}
	k.set, k.pending = nil, true
	if _, err := v.Verify(t.Context(), rule(claimsOf), i.token(valid), noon); !errors.Is(err, jwt.ErrPending) {
		t.Errorf("during the first fetch: got %v, want %v", err, jwt.ErrPending)
	}
}

// For any text, Verify does not panic, and accepts only tokens that the issuer has signed.
func FuzzVerify_OnlySignedTokensCount(f *testing.F) {
	i := newIssuer(f)
	v := jwt.New(&keys{set: parse(f, i.set())})
	good := i.token(valid)
	f.Add(good)
	f.Add(signed(object{"alg": "none"}, valid, func([]byte) []byte { return nil }))
	f.Add("eyJ.e30.x")
	f.Fuzz(func(t *testing.T, token string) {
		id, err := v.Verify(context.Background(), rule(claimsOf), token, noon)
		if err == nil && (id.Owner != "alice" || id.Objective != "batch" || len(id.Models) != 2) {
			t.Errorf("%q counts: got %+v, want alice, batch and 2 models", token, id)
		}
	})
}

// For any claims, Verify does not panic, and the identity is within its limits.
func FuzzVerify_ClaimsOfAnyForm(f *testing.F) {
	i := newIssuer(f)
	v := jwt.New(&keys{set: parse(f, i.set())})
	f.Add(marshal(valid))
	f.Add([]byte(`{"iss": "` + issuerURL + `", "aud": "models", "exp": 1e300, "preferred_username": "a"}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		id, err := v.Verify(context.Background(), rule(claimsOf), signedText(i, string(payload)), noon)
		if err != nil {
			return
		}
		if id.Owner == "" || len(id.Owner) > 128 || strings.ContainsAny(id.Owner, "\r\n ,/") ||
			!noon.Before(id.Expires) || id.Models == nil || len(id.Models) > 64 || len(id.Groups) > 32 {
			t.Errorf("%q: got %+v, want an owner of 1 to 128 plain characters, an end after noon, and lists within "+
				"their limits", payload, id)
		}
	})
}
