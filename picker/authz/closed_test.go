package authz_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/authz"
)

// An invalid policy denies every request, with the reason policy_invalid. Denied keys that no
// policy checked do not count as failed attempts.
func TestCheck_ClosedPolicyIsTheReasonAndNoFailedAttempt(t *testing.T) {
	invalid := lets("", "infra")
	invalid.Namespaces, invalid.Closed = nil, true
	tab := table([]*authz.Key{key("infra", "alice", "sk-secret", nil)},
		map[string]*authz.Policy{"infra/all": lets("", "infra"), "infra/invalid": invalid})
	s := authz.New(authz.Config{Table: tab, Now: func() time.Time { return noon },
		Gateway: func(context.Context) string { return "" }})
	for _, c := range []struct{ name, policies, key, want string }{
		{"a valid key", "infra/invalid", "sk-secret", "policy_invalid"},
		{"an unknown key", "infra/invalid", "sk-unknown", "policy_invalid"},
		{"no key", "infra/invalid", "", "policy_invalid"},
		{"a valid key of another policy", "infra/all,infra/invalid", "sk-secret", "policy_invalid"},
		{"an unknown key, beside another policy", "infra/all,infra/invalid", "sk-unknown", "invalid_api_key"},
		{"a valid key elsewhere", "infra/all", "sk-secret", ""},
	} {
		for range 100 { // more than the limit of failed attempts
			in := call{policies: c.policies, address: "192.0.2.1"}
			if c.name == "an unknown key, beside another policy" {
				in.address = "192.0.2.2"
			}
			if c.key != "" {
				in.headers = []string{"authorization", "Bearer " + c.key}
			}
			got, err := s.Check(t.Context(), in.request())
			if err != nil {
				t.Fatal(c.name, err)
			}
			denied := got.GetDeniedResponse()
			reason := ""
			for _, h := range denied.GetHeaders() {
				if h.GetHeader().GetKey() == "x-penstock-reason" {
					reason = h.GetHeader().GetValue()
				}
			}
			if reason == authz.ReasonAttempts && in.address == "192.0.2.2" {
				break
			}
			if reason != c.want {
				t.Fatalf("%s: reason %q, want %q", c.name, reason, c.want)
			}
			if named := got.GetDynamicMetadata().GetFields()["policy"].GetStringValue() == "infra/invalid"; named !=
				(c.want == "policy_invalid") { // for Envoy's access log
				t.Fatalf("%s: metadata %v, want policy infra/invalid: %t", c.name, got.GetDynamicMetadata(), !named)
			}
			if named := strings.Contains(denied.GetBody(), "infra/invalid"); named != (c.want == "policy_invalid") {
				t.Fatalf("%s: body %s, want infra/invalid in it: %t", c.name, denied.GetBody(), !named)
			}
		}
	}
}
