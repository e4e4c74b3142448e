package authz_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/picker/authz"
	"github.com/penstock-project/penstock/picker/authz/jwks"
	"github.com/penstock-project/penstock/picker/authz/jwt"
)

// tokens has identities by "ISSUER TOKEN".
type tokens map[string]*jwt.Identity

func (t tokens) Verify(_ context.Context, r *jwt.Rule, token string, _ time.Time) (*jwt.Identity, error) {
	if id := t[r.Source.Issuer+" "+token]; id != nil {
		return id, nil
	}
	if r.Source.Issuer == "new" {
		return nil, jwt.ErrPending
	}
	return nil, errors.New("it does not count")
}

const aliceToken, bobToken = "eyJhbGciOiJFZERTQSJ9.e30.alice", "eyJhbGciOiJFZERTQSJ9.e30.bob"

// verified has the tokens of two callers. Both issuers know alice.
func verified() tokens {
	return tokens{
		"sso " + aliceToken: {Owner: "alice", Groups: []string{"staff"}, Objective: "batch",
			Expires: noon.Add(time.Hour)},
		"hr " + aliceToken: {Owner: "a.smith", Expires: noon.Add(time.Hour)},
		"sso " + bobToken: {Owner: "bob", Models: []string{"llama", "team-*"}, Groups: []string{},
			Expires: noon.Add(time.Hour)},
	}
}

func issued(namespace, issuer string) *authz.Policy {
	p := lets("!x,x") // permits no key
	p.JWT = &jwt.Rule{Namespace: namespace, Source: jwks.Source{Issuer: issuer}}
	return p
}

// federated has policies for tokens, for keys, and for both.
func federated() *authz.Table {
	both := issued("infra", "sso")
	both.Selector, both.Namespaces = lets("", "infra").Selector, []string{"infra"}
	return table([]*authz.Key{key("infra", "carol", "k", nil)}, map[string]*authz.Policy{
		"infra/sso": issued("infra", "sso"), "infra/hr": issued("infra", "hr"), "infra/keys": lets("", "infra"),
		"infra/both": both, "infra/new": issued("infra", "new"),
	})
}

func ask(t *testing.T, c call, now time.Time) *authv3.CheckResponse {
	t.Helper()
	c.tokens, c.now = verified(), now
	got, err := check(federated(), c)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Without the issuer's first keys, the answer is UNAVAILABLE, so that another process decides.
func TestToken_IsUndecidedWithoutTheFirstKeys(t *testing.T) {
	for credential, want := range map[string]codes.Code{aliceToken: codes.Unavailable, "k": codes.OK} {
		got, err := check(federated(), call{policies: "infra/new", tokens: verified(),
			headers: []string{"x-api-key", credential}})
		if status.Code(err) != want {
			t.Errorf("%s: got %v %v, want %v", credential, got, err, want)
		}
	}
}

// The outermost policy that permits a token names its caller.
func TestToken_CallerIsTheOutermostPolicys(t *testing.T) {
	for _, c := range []struct{ policies, credential, want string }{
		{"infra/sso", aliceToken, "infra/alice"},
		{"infra/hr", aliceToken, "infra/a.smith"},
		{"infra/sso,infra/hr", aliceToken, "infra/alice"},
		{"infra/hr,infra/sso", aliceToken, "infra/a.smith"},
		{"infra/both", aliceToken, "infra/alice"},
		{"infra/both", "k", "infra/carol"},
		{"infra/both,infra/keys", "k", "infra/carol"},
		{"infra/sso", "k", "invalid_api_key"},
		{"infra/keys", aliceToken, "invalid_api_key"},
		{"infra/hr", bobToken, "invalid_api_key"},
		{"infra/sso", aliceToken + "x", "invalid_api_key"},
		{"infra/sso,infra/keys", aliceToken, "not_permitted"},
		{"infra/sso,infra/hr", bobToken, "not_permitted"},
	} {
		got := ask(t, call{policies: c.policies, headers: []string{"authorization", "Bearer " + c.credential}}, noon)
		outcome := got.GetDynamicMetadata().GetFields()["caller"].GetStringValue()
		for _, h := range got.GetDeniedResponse().GetHeaders() {
			if h.GetHeader().GetKey() == "x-penstock-reason" {
				outcome = h.GetHeader().GetValue()
			}
		}
		if outcome != c.want {
			t.Errorf("%s at %s: got %s, want %s", c.credential, c.policies, outcome, c.want)
		}
		if strings.Contains(got.String(), aliceToken) {
			t.Errorf("%s: the answer has the token", c.policies)
		}
	}
}

func TestToken_IsRemovedAndItsClaimsAreHeaders(t *testing.T) {
	for _, header := range [][]string{{"authorization", "Bearer " + aliceToken}, {"x-api-key", aliceToken}} {
		got := ask(t, call{policies: "infra/sso", headers: header}, noon)
		ok := got.GetOkResponse()
		if !slices.Contains(ok.GetHeadersToRemove(), header[0]) {
			t.Error("removes", ok.GetHeadersToRemove())
		}
		set := map[string]string{}
		for _, h := range ok.GetHeaders() {
			set[h.GetHeader().GetKey()] = h.GetHeader().GetValue()
		}
		if set["x-gateway-inference-objective"] != "batch" || set[authz.CallerHeader] != "infra/alice" {
			t.Error("sets", set)
		}
		if groups := got.GetDynamicMetadata().GetFields()["groups"].GetListValue().GetValues(); len(groups) != 1 ||
			groups[0].GetStringValue() != "staff" {
			t.Error("groups:", groups)
		}
	}
}

// An expired identity is denied, even if the verifier returns it.
func TestToken_ExpiredIdentityIsDenied(t *testing.T) {
	got := ask(t, call{policies: "infra/sso", headers: []string{"authorization", "Bearer " + aliceToken}},
		noon.Add(time.Hour))
	if got.GetStatus().GetCode() != int32(codes.Unauthenticated) {
		t.Error(got)
	}
}

// The models of a token restrict its caller, and the list of models that the picker answers.
func TestToken_ModelsRestrictItsCaller(t *testing.T) {
	with := []string{"authorization", "Bearer " + bobToken}
	for model, want := range map[string]codes.Code{"llama": codes.OK, "team-x": codes.OK,
		"other": codes.PermissionDenied, "": codes.PermissionDenied} {
		got := ask(t, call{policies: "infra/sso", headers: append(with, authz.ModelHeader, model)}, noon)
		if got.GetStatus().GetCode() != int32(want) {
			t.Errorf("%q: got %v, want %v", model, got, want)
		}
	}
	got := ask(t, call{policies: "infra/sso", lists: true, path: "/v1/models", headers: with}, noon)
	reference := ""
	for _, h := range got.GetOkResponse().GetHeaders() {
		if h.GetHeader().GetKey() == authz.KeysHeader {
			reference = h.GetHeader().GetValue()
		}
	}
	tab := federated()
	for _, c := range []struct {
		reference, model string
		want             bool
	}{
		{reference, "llama", true}, {reference, "team-x", true}, {reference, "other", false}, {reference, "", true},
		{reference + ",infra/carol", "llama", true}, {reference + ",infra/unknown", "llama", false},
		{"models=", "llama", false}, {"models=!", "llama", false}, {"models=bnVsbA", "llama", false},
		{"", "llama", false},
	} {
		if got := tab.Permits(c.reference, "n/pool", c.model); got != c.want {
			t.Errorf("%s permits %q: got %v, want %v", c.reference, c.model, got, c.want)
		}
	}
}

// countingTokens counts calls. expiredToken has expired.
type countingTokens struct {
	tokens
	calls int
}

const expiredToken = "eyJhbGciOiJFZERTQSJ9.e30.expired"

func (c *countingTokens) Verify(ctx context.Context, r *jwt.Rule, token string, now time.Time) (*jwt.Identity, error) {
	if c.calls++; token == expiredToken {
		return nil, jwt.ErrExpired
	}
	return c.tokens.Verify(ctx, r, token, now)
}

// An address that sends wrong tokens gets 429, and its tokens are not verified. Keys, tokens that
// were valid before, and other addresses are not limited.
func TestToken_LimitsFailedTokensByAddress(t *testing.T) {
	now, counting := noon, &countingTokens{tokens: verified()}
	s := authz.New(authz.Config{Table: federated(), Tokens: counting, Now: func() time.Time { return now },
		Gateway: func(context.Context) string { return "" }})
	send := func(policies, from, credential string) string {
		t.Helper()
		c := call{policies: policies, address: from,
			headers: []string{"x-api-key", credential, authz.ModelHeader, "llama"}}
		got, err := s.Check(context.Background(), c.request())
		if err != nil {
			t.Fatal(err)
		}
		return codes.Code(got.GetStatus().GetCode()).String()
	}
	const here, there, denied, limited = "192.0.2.1", "192.0.2.2", "Unauthenticated", "ResourceExhausted"
	send("infra/both", here, aliceToken)
	for range 100 {
		send("infra/both", there, expiredToken)     // signed by its issuer
		send("infra/keys", there, aliceToken+"x")   // no policy verifies it
		send("infra/both", "", aliceToken+"x")      // from an unknown address
		send("infra/both", here, aliceToken+"x")    // at most 30 are verified
		send("infra/both", "192.0.2.3", "sk-wrong") // a key
	}
	before := counting.calls
	for _, c := range []struct{ from, credential, want string }{
		{here, aliceToken + "x", limited}, {here, bobToken, limited}, {here, aliceToken, "OK"}, {here, "k", "OK"},
		{there, bobToken, "OK"}, {there, aliceToken + "x", denied}, {"", aliceToken + "x", denied},
		{"192.0.2.3", bobToken, "OK"}, {"192.0.2.3", "k", limited},
	} {
		if got := send("infra/both", c.from, c.credential); got != c.want {
			t.Errorf("%s from %q: got %s, want %s", c.credential, c.from, got, c.want)
		}
	}
	if got := counting.calls - before; got != 5 {
		t.Errorf("%d tokens were verified, want 5: none that is limited", got)
	}
	if now = now.Add(2 * time.Second); send("infra/both", here, bobToken) != "OK" {
		t.Error("2 s later a further token is limited")
	}
}

// DecideToken returns each policy's reason for its denial, without the token.
func TestToken_DecisionNamesEachPolicysReason(t *testing.T) {
	d, why, err := federated().DecideToken(t.Context(), authz.Request{Policies: []string{"infra/sso", "infra/hr",
		"infra/keys"}, Known: true}, verified(), bobToken, noon)
	if err != nil || d.Reason != authz.ReasonNotPermitted || d.Policy != "infra/hr" || d.Key.Caller != "infra/bob" {
		t.Errorf("got %+v %v, want infra/bob not permitted by infra/hr", d, err)
	}
	if len(why) != 3 || why[0] != nil || why[1] == nil || why[2] == nil || why[2].Error() != "it lets no token in" {
		t.Error(why)
	}
}
