package authz_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/penstock-project/penstock/picker/authz"
	"github.com/penstock-project/penstock/picker/authz/jwks"
	"github.com/penstock-project/penstock/picker/authz/jwt"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// clock is the time of a test.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

type openWorld struct {
	*testing.T
	table *authz.Table
	open  *authz.Open
	clock *clock
	// tokens accepts one token.
	tokens authz.Tokens
}

func newOpenWorld(t *testing.T, keys []*authz.Key, policies map[string]*authz.Policy) *openWorld {
	t.Helper()
	w := &openWorld{T: t, table: table(keys, policies), clock: &clock{at: noon}}
	w.open = authz.NewOpen(authz.OpenConfig{Table: w.table, Now: w.clock.now,
		Gates: func(gateway, policy string) bool { return policy != "infra/elsewhere" }})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.open.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return w
}

// grant returns the grant in the answer to a credential.
func (w *openWorld) grant(credential, model string, policies ...string) string {
	w.Helper()
	s := authz.New(authz.Config{Table: w.table, Now: w.clock.now, Tokens: w.tokens,
		Gateway: func(context.Context) string { return "" }})
	c := call{headers: []string{"authorization", "Bearer " + credential}}
	if model != "" {
		c.headers = append(c.headers, authz.ModelHeader, model)
	}
	r := c.request()
	r.Attributes.ContextExtensions = map[string]string{authz.PoliciesKey: strings.Join(policies, ","),
		authz.WatchKey: "true", authz.PoolsKey: "ns/chat"}
	got, err := s.Check(context.Background(), r)
	if err != nil || got.GetOkResponse() == nil {
		w.Fatal(got, err)
	}
	return grantIn(got)
}

func grantIn(r *authv3.CheckResponse) string {
	return r.GetDynamicMetadata().GetFields()["grant"].GetStringValue()
}

// openRequest is an open request.
type openRequest struct {
	mu    sync.Mutex
	ended []string // reasons
	done  func()
}

func (r *openRequest) reasons() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ended)
}

func (w *openWorld) watch(grant string, policies ...string) *openRequest {
	w.Helper()
	r := &openRequest{}
	done, err := w.open.Watch(authz.Watched{Gateway: "infra/edge", Grant: grant, Policies: policies,
		Pools: []string{"ns/chat"}}, func(d authz.Decision) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ended = append(r.ended, d.Reason)
	})
	if err != nil {
		w.Fatal(err)
	}
	r.done = done
	return r
}

// watching returns a policy with revoke: Immediately.
func watching(p *authz.Policy) *authz.Policy {
	p.Watches = true
	return p
}

func (w *openWorld) apply(key string, k *authz.Key) {
	w.table.Apply(authz.Change{Keys: map[string]*authz.Key{key: k}}, w.clock.now())
}

// Each change after which the policies deny a request ends this request, and no other.
func TestOpen_RequestsEndOnceTheirKeysAreDenied(t *testing.T) {
	alice := func(edit func(*authz.Key)) *authz.Key { return key("infra", "alice", "k-alice", edit) }
	policy := func(p *authz.Policy) authz.Change {
		return authz.Change{Policies: map[string]*authz.Policy{"infra/all": p}}
	}
	changed := func(edit func(*authz.Key)) authz.Change {
		return authz.Change{Keys: map[string]*authz.Key{"infra/alice": alice(edit)}}
	}
	models := func(list ...string) func(*authz.Key) { return func(k *authz.Key) { k.Models = list } }
	pools := func(list ...string) func(*authz.Key) { return func(k *authz.Key) { k.Pools = list } }
	hashes := func(list ...authz.Hash) func(*authz.Key) { return func(k *authz.Key) { k.Hashes = list } }
	mine, other := authz.HashOf("k-alice"), authz.HashOf("k-new")
	byModel := watching(lets("", "infra"))
	byModel.ByModel = true
	for name, c := range map[string]struct {
		change authz.Change
		want   string
	}{
		"the key is removed": {authz.Change{Keys: map[string]*authz.Key{"infra/alice": nil}},
			authz.ReasonInvalidKey},
		"the key is disabled":              {changed(func(k *authz.Key) { k.Disabled = true }), authz.ReasonInvalidKey},
		"the key has another hash":         {changed(hashes(other)), authz.ReasonInvalidKey},
		"the key gets models":              {changed(models("b")), authz.ReasonModel},
		"the key gets pools":               {changed(pools("ns/b")), authz.ReasonPool},
		"the policy selects other keys":    {policy(watching(lets("team=a", "infra"))), authz.ReasonInvalidKey},
		"another key is removed":           {authz.Change{Keys: map[string]*authz.Key{"infra/bob": nil}}, ""},
		"the key gets another hash, too":   {changed(hashes(mine, other)), ""},
		"the key gets the request's model": {changed(models("llama*")), ""},
		"the key gets the route's pool":    {changed(pools("ns/chat")), ""},
		"the policy reads models":          {policy(byModel), ""},
		"the policy is removed":            {policy(nil), ""},
		"another policy selects no key": {authz.Change{Policies: map[string]*authz.Policy{"infra/b": lets("", "x")}},
			""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newOpenWorld(t, []*authz.Key{alice(nil), key("infra", "bob", "k-bob", nil)},
				map[string]*authz.Policy{"infra/all": watching(lets("", "infra")), "infra/b": lets("", "infra")})
			mine := w.watch(w.grant("k-alice", "llama-3", "infra/all"), "infra/all")
			w.table.Apply(c.change, noon)
			var want []string
			if c.want != "" {
				want = []string{c.want}
			}
			if got := mine.reasons(); !slices.Equal(got, want) {
				t.Errorf("ended %v, want %v", got, want)
			}
			w.table.Apply(c.change, noon) // a request ends once
			if got := mine.reasons(); !slices.Equal(got, want) {
				t.Errorf("then ended %v, want %v", got, want)
			}
			mine.done()
			if n := w.open.Count(); n != 0 {
				t.Errorf("%d requests are watched, want 0", n)
			}
		})
	}
}

// If the key is denied between the first decision and Watch, Watch ends the request.
func TestOpen_RequestOfAKeyThatIsAlreadyDeniedEnds(t *testing.T) {
	w := newOpenWorld(t, []*authz.Key{key("infra", "alice", "k", nil)},
		map[string]*authz.Policy{"infra/all": watching(lets("", "infra"))})
	grant := w.grant("k", "", "infra/all")
	w.apply("infra/alice", nil)
	if got := w.watch(grant, "infra/all").reasons(); !slices.Equal(got, []string{authz.ReasonInvalidKey}) {
		t.Errorf("ended %v, want once with %s", got, authz.ReasonInvalidKey)
	}
}

func TestOpen_RequestsEndWhenKeysAndTokensExpire(t *testing.T) {
	soon := noon.Add(time.Hour)
	rule := &jwt.Rule{Namespace: "infra", Source: jwks.Source{Issuer: "sso"}, Audiences: []string{"models"}}
	w := newOpenWorld(t, []*authz.Key{key("infra", "alice", "k", func(k *authz.Key) { k.Expires = soon }),
		key("infra", "bob", "k-bob", nil)}, map[string]*authz.Policy{"infra/all": {Namespaces: []string{"infra"},
		Selector: labels.Everything(), JWT: rule, Watches: true}})
	w.tokens = tokens{"sso " + aliceToken: {Owner: "carol", Expires: soon.Add(time.Hour)}}
	alice := w.watch(w.grant("k", "", "infra/all"), "infra/all")
	bob := w.watch(w.grant("k-bob", "", "infra/all"), "infra/all")
	carol := w.watch(w.grant(aliceToken, "", "infra/all"), "infra/all")
	ends := func(what string, r *openRequest) {
		t.Helper()
		poll.NoError(t, what+" ends", poll.Limit, func() error {
			if got := r.reasons(); !slices.Equal(got, []string{authz.ReasonInvalidKey}) {
				return fmt.Errorf("ended %v, want once with %s", got, authz.ReasonInvalidKey)
			}
			return nil
		})
	}
	w.clock.set(soon)
	ends("the key's request", alice)
	if len(bob.reasons())+len(carol.reasons()) > 0 {
		t.Error("requests end before their keys expire")
	}
	w.clock.set(soon.Add(-time.Minute)) // a clock set back
	w.clock.set(soon.Add(time.Hour))
	ends("the token's request", carol)
	if got := bob.reasons(); len(got) > 0 {
		t.Errorf("the request of a key that never expires ends: %v", got)
	}
}

// After a policy is removed, or loses revoke: Immediately, a revoked key ends no stream of this
// policy. After the policy gets the field again, it does.
func TestOpen_OnlyPoliciesThatStillWatchEndRequests(t *testing.T) {
	for name, c := range map[string]struct {
		above []string
		to    map[string]*authz.Policy
		want  int
	}{
		"removed":  {[]string{"infra/all"}, map[string]*authz.Policy{"infra/all": nil}, 0},
		"to AtEnd": {[]string{"infra/all"}, map[string]*authz.Policy{"infra/all": lets("", "infra")}, 0},
		"back": {[]string{"infra/all"}, map[string]*authz.Policy{"infra/all": watching(lets("", "infra"))},
			1},
		"one of two removed": {[]string{"infra/all", "infra/b"}, map[string]*authz.Policy{"infra/all": nil}, 1},
		"one of two to AtEnd": {[]string{"infra/all", "infra/b"},
			map[string]*authz.Policy{"infra/all": lets("", "infra")}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newOpenWorld(t, []*authz.Key{key("infra", "alice", "k", nil)}, map[string]*authz.Policy{
				"infra/all": watching(lets("", "infra")), "infra/b": watching(lets("", "infra"))})
			r := w.watch(w.grant("k", "", c.above...), c.above...)
			if name == "back" {
				w.table.Apply(authz.Change{Policies: map[string]*authz.Policy{"infra/all": nil}}, noon)
			}
			w.table.Apply(authz.Change{Policies: c.to}, noon)
			w.apply("infra/alice", nil)
			if got := r.reasons(); len(got) != c.want {
				t.Errorf("ended %v, want %d", got, c.want)
			}
		})
	}
}

// The requests of a token end when the policy's issuer or audiences no longer match.
func TestOpen_RequestsOfTokensEndWithTheirRule(t *testing.T) {
	rule := func(issuer string, audiences ...string) *authz.Policy {
		p := watching(lets("!x,x")) // permits no key
		p.JWT = &jwt.Rule{Namespace: "infra", Source: jwks.Source{Issuer: issuer}, Audiences: audiences}
		return p
	}
	for name, c := range map[string]struct {
		to   *authz.Policy
		want int
	}{"the same": {rule("https://a", "n", "m"), 0}, "another issuer": {rule("https://b", "m", "n"), 1},
		"another audience": {rule("https://a", "m"), 1}, "no tokens": {watching(lets("!x,x")), 1}} {
		t.Run(name, func(t *testing.T) {
			w := newOpenWorld(t, nil, map[string]*authz.Policy{"infra/all": rule("https://a", "m", "n")})
			w.tokens = tokens{"https://a " + aliceToken: {Owner: "carol", Expires: noon.Add(time.Hour)}}
			r := w.watch(w.grant(aliceToken, "", "infra/all"), "infra/all")
			w.table.Apply(authz.Change{Policies: map[string]*authz.Policy{"infra/all": c.to}}, noon)
			if got := r.reasons(); len(got) != c.want {
				t.Errorf("ended %v, want %d", got, c.want)
			}
		})
	}
}

func TestOpen_WatchesNoRequestWithoutAGrant(t *testing.T) {
	w := newOpenWorld(t, []*authz.Key{key("infra", "alice", "k", nil)},
		map[string]*authz.Policy{"infra/all": watching(lets("", "infra")), "infra/elsewhere": lets("", "infra")})
	good := w.grant("k", "", "infra/all")
	for name, in := range map[string]authz.Watched{
		"no grant":               {Policies: []string{"infra/all"}},
		"no JSON":                {Grant: "AAAA", Policies: []string{"infra/all"}},
		"no hash":                {Grant: "e30", Policies: []string{"infra/all"}},
		"too long":               {Grant: string(make([]byte, 9000)), Policies: []string{"infra/all"}},
		"no policy":              {Grant: good},
		"an unknown policy":      {Grant: good, Policies: []string{"infra/x"}},
		"another Gateway's gate": {Gateway: "infra/edge", Grant: good, Policies: []string{"infra/elsewhere"}},
	} {
		_, err := w.open.Watch(in, func(authz.Decision) { t.Errorf("%s: ended, want no watch", name) })
		if unsolicited := name == "an unknown policy" || in.Gateway != ""; err == nil ||
			errors.Is(err, authz.ErrGrant) == unsolicited {
			t.Errorf("%s: got %v, want an error, of the grant itself: %t", name, err, !unsolicited)
		}
	}
	if n := w.open.Count(); n != 0 {
		t.Errorf("%d requests are watched, want 0", n)
	}
}

// One Gateway may watch at most half of maxOpen requests.
func TestOpen_IsBounded(t *testing.T) {
	w := newOpenWorld(t, []*authz.Key{key("infra", "alice", "k", nil)},
		map[string]*authz.Policy{"infra/all": watching(lets("", "infra"))})
	grant := w.grant("k", "", "infra/all")
	fill := func(gateway string) (n int, last func()) {
		for {
			done, err := w.open.Watch(authz.Watched{Gateway: gateway, Grant: grant, Policies: []string{"infra/all"}},
				func(authz.Decision) {})
			if errors.Is(err, authz.ErrFull) {
				return n, last
			}
			if err != nil {
				t.Fatal(err)
			}
			n, last = n+1, done
		}
	}
	first, done := fill("infra/edge")
	if second, _ := fill("infra/other"); first != 8192 || second != first {
		t.Errorf("%d and %d requests, want 8192 each", first, second)
	}
	if third, _ := fill("infra/third"); third != 0 {
		t.Errorf("%d requests of a third Gateway, want 0", third)
	}
	done()
	if again, _ := fill("infra/edge"); again != 1 {
		t.Errorf("%d requests after one has ended, want 1", again)
	}
}

// Requests begin and end while keys change: each request of a denied key ends once.
func TestOpen_ConcurrentChanges(t *testing.T) {
	w := newOpenWorld(t, []*authz.Key{key("infra", "alice", "k", nil)},
		map[string]*authz.Policy{"infra/all": watching(lets("", "infra"))})
	grant := w.grant("k", "", "infra/all")
	var group sync.WaitGroup
	var mu sync.Mutex
	var all []*openRequest
	for range 8 {
		group.Go(func() {
			for range 200 {
				r := w.watch(grant, "infra/all")
				mu.Lock()
				all = append(all, r)
				mu.Unlock()
			}
		})
	}
	for i := range 50 {
		w.apply("infra/alice", key("infra", "alice", "k", func(k *authz.Key) { k.Disabled = i%2 == 0 }))
	}
	w.apply("infra/alice", nil)
	group.Wait()
	for _, r := range all {
		if got := r.reasons(); len(got) != 1 {
			t.Fatalf("ended %v, want once", got)
		}
		r.done()
	}
	if n := w.open.Count(); n != 0 {
		t.Errorf("%d requests are watched, want 0", n)
	}
}
