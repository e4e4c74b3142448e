package features

import (
	"strings"
	"testing"
)

// A policy that is invalid from the beginning closes its targets. Clients with valid keys get the
// reason, and are not limited for them.
func TestAccess_ClosedPolicyNamesItselfToClients(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	key := s.keys("create", "alice")
	s.up("access.yaml", with("invalid"))
	s.becomes("a request without a key", "403 policy_invalid", func() string { return s.outcome("/team") })
	for range 50 { // more than an address may fail
		if got := s.outcome("/team", bearer(key)...); got != "403 policy_invalid" {
			t.Fatalf("with a valid key: %s", got)
		}
	}
	if got := s.outcome("/", bearer(key)...); got != "200" {
		t.Errorf("elsewhere the key is answered %s", got)
	}
	text, err := s.command("explain", s.url("/team"))
	if err != nil || !strings.Contains(text, "AccessPolicy default/invalid is invalid and lets nothing in") {
		t.Errorf("explain: %v\n%s", err, text)
	}
}
