package authz_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/penstock-project/penstock/picker/authz"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func key(namespace, name, secret string, edit func(*authz.Key)) *authz.Key {
	k := &authz.Key{Namespace: namespace, Name: name, Hashes: []authz.Hash{authz.HashOf(secret)},
		Caller: namespace + "/" + name}
	if edit != nil {
		edit(k)
	}
	return k
}

func table(keys []*authz.Key, policies map[string]*authz.Policy) *authz.Table {
	t, c := authz.NewTable(), authz.Change{Keys: map[string]*authz.Key{}, Policies: policies}
	for _, k := range keys {
		c.Keys[k.Namespace+"/"+k.Name] = k
	}
	t.Apply(c, noon)
	return t
}

func lets(selector string, namespaces ...string) *authz.Policy {
	s, err := labels.Parse(selector)
	if err != nil {
		panic(err)
	}
	return &authz.Policy{Namespaces: namespaces, Selector: s}
}

func bearer(key string) []authz.Header {
	return []authz.Header{{Name: "authorization", Value: "Bearer " + key}}
}

func request(policies []string, headers []authz.Header) authz.Request {
	return authz.Request{Policies: policies, Headers: headers, Known: true}
}

// A request passes only if each policy permits its key; keys of other namespaces do not count.
func TestDecide_EachPolicyMustLetTheKeyIn(t *testing.T) {
	tab := table([]*authz.Key{
		key("infra", "alice", "k-alice", func(k *authz.Key) { k.Labels = labels.Set{"team": "a"} }),
		key("infra", "bob", "k-bob", nil),
		key("infra", "old", "k-old", func(k *authz.Key) { k.Expires = noon }),
		key("infra", "off", "k-off", func(k *authz.Key) { k.Disabled = true }),
		key("tenant", "own", "k-own", nil),
		key("tenant", "alice", "k-alice", func(k *authz.Key) { k.Caller = "tenant/mallory" }),
		key("infra", "both", "k-new", func(k *authz.Key) { k.Hashes = append(k.Hashes, authz.HashOf("k-before")) }),
	}, map[string]*authz.Policy{
		"infra/all": lets("", "infra"), "infra/a": lets("team=a", "infra"), "infra/wide": lets("", "infra", "tenant"),
		"tenant/own": lets("", "tenant"), "infra/none": {Selector: labels.Nothing()},
	})
	for _, c := range []struct{ policies, key, want string }{
		{"infra/all", "k-alice", "infra/alice"},
		{"infra/all", "k-bob", "infra/bob"},
		{"infra/all", "k-new", "infra/both"},
		{"infra/all", "k-before", "infra/both"},
		{"infra/all", "unknown", "invalid_api_key"},
		{"infra/all", "", "invalid_api_key"},
		{"infra/all", "k-old", "invalid_api_key"},
		{"infra/all", "k-off", "invalid_api_key"},
		{"infra/all", "k-own", "invalid_api_key"}, // of another namespace
		{"infra/none", "k-alice", "invalid_api_key"},
		{"infra/a", "k-bob", "invalid_api_key"},
		{"infra/all,infra/a", "k-bob", "not_permitted"},
		{"infra/a,infra/all", "k-bob", "not_permitted"},
		{"infra/all,infra/a", "k-alice", "infra/alice"},
		{"infra/wide,tenant/own", "k-own", "tenant/own"},
		{"infra/all,tenant/own", "k-own", "not_permitted"},
		{"infra/all,tenant/own", "k-alice", "infra/alice"}, // the outermost policy names the caller
		{"tenant/own", "k-alice", "tenant/mallory"},
	} {
		d, err := tab.Decide(request(strings.Split(c.policies, ","), bearer(c.key)), noon)
		got := d.Reason
		if got == "" && d.Key != nil {
			got = d.Key.Caller
		}
		if err != nil || got != c.want {
			t.Errorf("%s at %s: %q, %v; want %q", c.key, c.policies, got, err, c.want)
		}
	}
}

// A restricted key permits only requests with a known model and known pools that it lists.
func TestDecide_RestrictedKeyReachesOnlyWhatItNames(t *testing.T) {
	tab := table([]*authz.Key{
		key("n", "models", "k-models", func(k *authz.Key) { k.Models = []string{"llama", "team-*"} }),
		key("n", "pools", "k-pools", func(k *authz.Key) { k.Pools = []string{"n/a", "n/b@"} }),
		key("n", "none", "k-none", func(k *authz.Key) { k.Models, k.Pools = []string{}, []string{} }),
		key("n", "all", "k-all", nil),
		key("m", "narrow", "k-all", func(k *authz.Key) { k.Models = []string{"llama"} }),
	}, map[string]*authz.Policy{"n/p": lets("", "n"), "m/p": lets("", "m")})
	unknown := func(r *authz.Request) { r.Known = false }
	early := func(r *authz.Request) { r.Known, r.Early = false, true }
	lists := func(r *authz.Request) { r.Lists = true }
	for _, c := range []struct {
		key, model, pools, want string
		edit                    func(*authz.Request)
	}{
		{"k-models", "llama", "n/a n/c", "", nil},
		{"k-models", "team-x", "", "", nil},
		{"k-models", "team-", "", "", nil},
		{"k-models", "team", "", "model_not_permitted", nil},
		{"k-models", "llama2", "", "model_not_permitted", nil},
		{"k-models", "Llama", "", "model_not_permitted", nil},
		{"k-models", "*", "", "model_not_permitted", nil},
		{"k-models", "", "", "model_not_permitted", nil},
		{"k-models", "", "", "", lists},
		{"k-models", "", "", "", early},
		{"k-pools", "any", "n/a", "", nil},
		{"k-pools", "any", "n/a n/b@", "", nil},
		{"k-pools", "any", "", "", nil},                          // a redirect
		{"k-pools", "any", "n/a n/b", "pool_not_permitted", nil}, // n/b is no import
		{"k-pools", "any", "n/a@", "pool_not_permitted", nil},
		{"k-pools", "any", "n/a *", "pool_not_permitted", nil}, // a Service
		{"k-pools", "any", "n/a n/c", "", lists},
		{"k-pools", "any", "", "pool_not_permitted", unknown},
		{"k-pools", "any", "", "", early},
		{"k-none", "llama", "n/a", "pool_not_permitted", nil},
		{"k-none", "llama", "", "model_not_permitted", nil},
		{"k-all", "x", "n/a *", "", nil},
		{"k-all", "x", "n/a", "model_not_permitted", func(r *authz.Request) { r.Policies = []string{"n/p", "m/p"} }},
	} {
		r := request([]string{"n/p"}, bearer(c.key))
		r.Model, r.Pools = c.model, strings.Fields(c.pools)
		if c.edit != nil {
			c.edit(&r)
		}
		if d, err := tab.Decide(r, noon); err != nil || d.Reason != c.want {
			t.Errorf("%s for model %q and pools %s: %q %v, want %q", c.key, c.model, c.pools, d.Reason, err, c.want)
		}
	}
}

// Before the route is known, one policy that permits the key suffices.
func TestDecide_BeforeTheRouteOnePolicySuffices(t *testing.T) {
	tab := table([]*authz.Key{key("n", "a", "k", nil)}, map[string]*authz.Policy{
		"n/p": lets("", "n"), "m/p": lets("", "m")})
	for secret, want := range map[string]string{"k": "", "other": "invalid_api_key"} {
		r := request([]string{"m/p", "n/p"}, bearer(secret))
		r.Any, r.Early, r.Known = true, true, false
		if d, err := tab.Decide(r, noon); err != nil || d.Reason != want {
			t.Errorf("%s: got reason %q, %v; want %q", secret, d.Reason, err, want)
		}
	}
}

// A table that was never filled, or lacks the policy, returns an error: another process may decide.
func TestDecide_UnknownPolicyIsNoDenialAndNoPass(t *testing.T) {
	filled := table(nil, map[string]*authz.Policy{"infra/all": lets("", "infra")})
	for name, c := range map[string]struct {
		table    *authz.Table
		policies []string
	}{
		"never filled": {authz.NewTable(), []string{"infra/all"}},
		"unknown":      {filled, []string{"infra/all", "infra/other"}},
		"none":         {filled, nil},
	} {
		if d, err := c.table.Decide(request(c.policies, bearer("k")), noon); err == nil {
			t.Errorf("%s: got %+v, want an error", name, d)
		}
	}
}

// A removed policy still decides for some minutes, because Envoys may still have routes with it.
func TestTable_RemovedPolicyStillDecidesForAWhile(t *testing.T) {
	tab := table([]*authz.Key{key("infra", "alice", "k", nil)},
		map[string]*authz.Policy{"infra/all": lets("", "infra")})
	tab.Apply(authz.Change{Policies: map[string]*authz.Policy{"infra/all": nil}}, noon)
	if d, err := tab.Decide(request([]string{"infra/all"}, bearer("k")), noon); err != nil || d.Key == nil {
		t.Error("soon:", d, err)
	}
	tab.Apply(authz.Change{}, noon.Add(time.Hour))
	if d, err := tab.Decide(request([]string{"infra/all"}, bearer("k")), noon); err == nil {
		t.Error("later:", d)
	}
}

func TestTable_ChangedKeyCountsAtOnce(t *testing.T) {
	tab := table([]*authz.Key{key("n", "a", "one", nil), key("n", "b", "one", func(k *authz.Key) {
		k.Created = noon
	})}, map[string]*authz.Policy{"n/p": lets("", "n")})
	set := func(name string, k *authz.Key) { tab.Apply(authz.Change{Keys: map[string]*authz.Key{name: k}}, noon) }
	caller := func(secret string) string {
		d, err := tab.Decide(request([]string{"n/p"}, bearer(secret)), noon)
		if err != nil || d.Key == nil {
			return fmt.Sprint(d.Reason, err)
		}
		return d.Key.Caller
	}
	step := func(what, secret, want string) {
		t.Helper()
		if got := caller(secret); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	step("the older of two", "one", "n/a")
	set("n/a", key("n", "a", "two", nil))
	step("after its change", "one", "n/b")
	step("its new key", "two", "n/a")
	set("n/b", nil)
	step("after a removal", "one", "invalid_api_key<nil>")
	if shared := tab.Sharing("n/a"); len(shared) > 0 {
		t.Error("shares its hash with", shared)
	}
}

func TestPresented_AmbiguousCredentialIsNone(t *testing.T) {
	tab := table([]*authz.Key{key("n", "a", "k", nil), key("n", "b", "l", nil)},
		map[string]*authz.Policy{"n/p": lets("", "n")})
	h := func(pairs ...string) (out []authz.Header) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, authz.Header{Name: pairs[i], Value: pairs[i+1]})
		}
		return out
	}
	for _, c := range []struct {
		headers []authz.Header
		remove  string // "-" means denied
	}{
		{h("authorization", "Bearer k"), "authorization"},
		{h("authorization", "bearer  k "), "authorization"},
		{h("x-api-key", "k"), "x-api-key"},
		{h("api-key", "k"), "api-key"},
		{h("authorization", "Bearer k", "x-api-key", "k"), "authorization x-api-key"},
		{h("authorization", "Basic abc", "x-api-key", "k"), "x-api-key"},       // Basic is for the model server
		{h("authorization", "k", "x-api-key", "k"), "x-api-key authorization"}, // the header with the key is removed
		{h("x-api-key", "k", "authorization", "Token k"), "x-api-key authorization"},
		{h("authorization", "Bearer k", "x-api-key", "l"), "-"},
		{h("authorization", "Bearer k", "authorization", "Bearer l"), "-"},
		{h("authorization", "Bearer k", "authorization", "Bearer k"), "authorization"},
		{h("x-api-key", "", "authorization", "Bearer k"), "-"},
		{h("authorization", "k"), "-"},
		{h("authorization", "Bearer "), "-"},
		{h("authorization", "Bearer"), "-"},
		{h("authorization", "Bearer k,k"), "-"},
		{h("x-api-key", strings.Repeat("k", 5000)), "-"},
		{h("cookie", "k"), "-"},
		{nil, "-"},
	} {
		d, err := tab.Decide(request([]string{"n/p"}, c.headers), noon)
		got := strings.Join(d.Remove, " ")
		if d.Reason != "" {
			got = "-"
		}
		if err != nil || got != c.remove {
			t.Errorf("%v: %q %v, want %q", c.headers, got, err, c.remove)
		}
	}
}

func TestKey_NewOnesAreWellFormedAndDiffer(t *testing.T) {
	var seen []string
	for range 100 {
		k, err := authz.NewKey(rand.Reader)
		if err != nil || !authz.WellFormed(k) || slices.Contains(seen, k) || !strings.HasPrefix(k, "sk-ps-") {
			t.Fatal(k, err)
		}
		seen = append(seen, k)
		wrong := []byte(k)
		wrong[10] ^= 1
		if authz.WellFormed(string(wrong)) || authz.WellFormed(k[:len(k)-1]) || authz.WellFormed(k+"A") {
			t.Error("a mistyped key is well-formed:", k)
		}
	}
	if _, err := authz.NewKey(bytes.NewReader(nil)); err == nil {
		t.Error("a key without random bits")
	}
}

func TestHash_OfEmptyAndKnownKeysIsWeak(t *testing.T) {
	for _, k := range []string{"", "test", "EMPTY", "sk-1234", strings.Repeat("x", 33),
		"sk-" + strings.Repeat("0", 48), strings.Repeat("abc", 7), "abcdefghijklmnopqrstuvwxyzabcdef", "0123456789abcdef0123456789abcdef"} {
		if !authz.Weak(authz.HashOf(k)) {
			t.Errorf("%q counts as a key, want it weak", k)
		}
	}
	if authz.Weak(authz.HashOf("sk-ps-x")) {
		t.Error("every hash is weak")
	}
	for text, ok := range map[string]bool{authz.HashOf("k").String(): true, "": false, strings.Repeat("a", 63): false,
		strings.Repeat("A", 64): false, strings.Repeat("g", 64): false} {
		if _, err := authz.ParseHash(text); (err == nil) != ok {
			t.Errorf("%q: got %v, want a hash: %t", text, err, ok)
		}
	}
}

func TestKey_OfRepetitionsAndSequencesIsGuessable(t *testing.T) {
	for key, want := range map[string]bool{
		"": true, "sk-1234": true, strings.Repeat("x", 33): true, strings.Repeat("ab", 32): true,
		strings.Repeat("7kQ", 20): true, "abcdefghijklmnopqrstuvwxyz0123456789": true,
		"sk-zyxwvutsrqponmlkjihgfedcba":                     true,
		strings.Repeat("a", 500) + strings.Repeat("b", 500): true, "hunter2": true,
		"3f9c1a7be2d04856": false, "sk-mX4Zr0vT8Kq2LhNw6Yb1Dg": false, "8c4f6e0a-2d1b-4e7f-9a3c-5b8d7e6f1024": false,
		"the-old-key-of-bob": false,
	} {
		if got := authz.Guessable(key); got != want {
			t.Errorf("%q is guessable: got %t, want %t", key, got, want)
		}
	}
	key, err := authz.NewKey(rand.Reader)
	if err != nil || authz.Guessable(key) {
		t.Errorf("a new key %s: got guessable, %v, want not guessable", key, err)
	}
}

// For any headers, only a known key passes, and its headers are removed.
func FuzzDecide_OnlyAKnownKeyPasses(f *testing.F) {
	f.Add("authorization", "Bearer k", "x-api-key", "k")
	f.Add("authorization", "bEaReR\tk", "api-key", "")
	tab := table([]*authz.Key{key("n", "a", "k", nil)}, map[string]*authz.Policy{"n/p": lets("", "n")})
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		headers := []authz.Header{{Name: name1, Value: value1}, {Name: name2, Value: value2}}
		d, err := tab.Decide(request([]string{"n/p"}, headers), noon)
		if err != nil {
			t.Fatal(err)
		}
		if d.Reason != "" {
			return
		}
		for _, h := range headers {
			if slices.Contains(d.Remove, h.Name) && !strings.HasSuffix(strings.TrimSpace(h.Value), "k") {
				t.Errorf("%v pass, want only the key k", headers)
			}
		}
		if len(d.Remove) == 0 || d.Key == nil {
			t.Errorf("%v passes with its key, want the key found and its header removed", headers)
		}
	})
}
