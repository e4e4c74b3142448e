package features

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A policy that is invalid from the beginning denies all requests to its targets. Requests with
// valid keys do not count towards an address's limit of failures.
func TestAccess_ClosedPolicyNamesItselfToClients(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	key := s.keys("create", "alice")
	log := filepath.Join(s.state, "access.log")
	s.flags = append(s.flags, "--access-log", log)
	s.up("access.yaml", with("invalid"))
	s.becomes("a request without a key", "403 policy_invalid", func() string { return s.outcome("/team") })
	for range 50 { // exceeds the limit of failures of an address
		if got := s.outcome("/team", bearer(key)...); got != "403 policy_invalid" {
			t.Fatalf(`with a valid key: got %s, want "403 policy_invalid"`, got)
		}
	}
	if got := s.outcome("/", bearer(key)...); got != "200" {
		t.Errorf(`the key on another route: got %s, want "200"`, got)
	}
	s.Eventually("the access log names the policy that denies a request, and no policy for others", func() error {
		lines, err := os.ReadFile(log)
		if err != nil {
			return err
		}
		for _, line := range strings.Split(string(lines), "\n") {
			if denied := strings.Contains(line, `"status":403`); line != "" &&
				strings.Contains(line, `"denied_by":"default/invalid"`) != denied {
				t.Errorf(`got the line %s, want "denied_by":"default/invalid" for status 403 alone`, line)
			}
		}
		return because(strings.Contains(string(lines), `"denied_by":"default/invalid"`), string(lines))
	})
	if text := s.output(); !strings.Contains(text, "policy=default/invalid") {
		t.Errorf("Penstock's log: got\n%s\nwant policy=default/invalid", text)
	}
	text, err := s.command("explain", s.url("/team"))
	if err != nil || !strings.Contains(text, "AccessPolicy default/invalid is invalid and lets nothing in") {
		t.Errorf("explain: got %v\n%s\nwant that AccessPolicy default/invalid is invalid and lets nothing in", err,
			text)
	}
}
