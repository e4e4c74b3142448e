package features

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func (s *site) drop(name string) {
	s.Helper()
	if err := os.Remove(filepath.Join(s.Files, name)); err != nil {
		s.Fatal(err)
	}
}

// rejected has AccessPolicies for the route /team that are invalid. Each must close the route.
var rejected = map[string]string{
	"unknown field": "kind: AccessPolicy\nmetadata: {name: team}\n" +
		"spec: {targetRefs: [{kind: HTTPRoute, name: team}], apiKeys: {}, byModell: true}\n",
	"wrong type": "kind: AccessPolicy\nmetadata: {name: team}\n" +
		"spec: {targetRefs: [{kind: HTTPRoute, name: team}], apiKeys: {}, byModel: 7}\n",
	"rule": "kind: AccessPolicy\nmetadata: {name: team}\nspec: {targetRefs: [{kind: HTTPRoute, name: team}]}\n",
	"targetRef instead of targetRefs": "kind: AccessPolicy\nmetadata: {name: team}\n" +
		"spec: {targetRef: {kind: HTTPRoute, name: team}, apiKeys: {}}\n",
	"name": "kind: AccessPolicy\nmetadata: {name: T_1}\n" +
		"spec: {targetRefs: [{kind: HTTPRoute, name: team}], apiKeys: {}}\n",
	"kind": "kind: AccesPolicy\nmetadata: {name: team}\n" +
		"spec: {targetRefs: [{kind: HTTPRoute, name: team}], apiKeys: {}}\n",
	"kind, far off": "kind: Policy\nmetadata: {name: team}\n" +
		"spec: {targetRefs: [{kind: HTTPRoute, name: team}], apiKeys: {}}\n",
}

// A new AccessPolicy that is invalid denies all requests to its targets, and to no other route. Its
// correction admits the callers that it allows.
func TestAccess_RejectedNewPolicyClosesItsTargets(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	key := s.keys("create", "alice")
	s.up("access.yaml")
	s.served("/team")
	const version = "apiVersion: penstock.dev/v1alpha1\n"
	becomes := func(name, path, want string) {
		t.Helper()
		s.Eventually(name+": "+path+" is answered "+want, func() error {
			got := s.outcome(path, bearer(key)...)
			return because(got == want, got)
		})
	}
	for name, text := range rejected {
		s.Write("policy.yaml", version+text)
		becomes(name, "/team", "403 policy_invalid")
		if got := s.outcome("/", bearer(key)...); got != "200" {
			t.Errorf(`%s: the other route: got %s, want "200"`, name, got)
		}
		s.drop("policy.yaml")
		becomes(name, "/team", "200")
	}
	const good = version + "kind: AccessPolicy\nmetadata: {name: team}\n" +
		"spec: {targetRefs: [{kind: HTTPRoute, name: team}], apiKeys: {}}\n"
	s.Write("policy.yaml", version+rejected["rule"])
	becomes("rejected", "/team", "403 policy_invalid")
	s.Write("policy.yaml", good)
	becomes("corrected", "/team", "200")
	if got := s.outcome("/team"); got != "401 invalid_api_key" {
		t.Errorf(`corrected: without a key: got %s, want "401 invalid_api_key"`, got)
	}
	s.Write("policy.yaml", strings.Replace(good, "apiKeys: {}", "apiKeys: {}, byModel: 7", 1)) // an invalid change
	s.Eventually("the change is rejected", func() error {
		text, _ := s.command("status")
		return because(strings.Contains(text, "its last good version stays in use"), text)
	})
	becomes("rejected change", "/team", "200")
	if got := s.outcome("/team"); got != "401 invalid_api_key" {
		t.Errorf(`rejected change: without a key: got %s, want "401 invalid_api_key"`, got)
	}
}

// If an invalid policy has no readable targets, it denies requests to everything in its namespace
// that it could target.
func TestAccess_PolicyWithoutReadableTargetsClosesItsNamespace(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	key := s.keys("create", "alice")
	s.up("access.yaml")
	s.served("/")
	for name, text := range map[string]string{
		"no YAML": "apiVersion: penstock.dev/v1alpha1\nkind: AccessPolicy\nmetadata: {name: p\nspec: {\n",
		"no separator": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {}\n" +
			"apiVersion: penstock.dev/v1alpha1\nkind: AccessPolicy\nmetadata: {name: p}\nspec: {apiKeys: {}}\n",
	} {
		s.Write("policy.yaml", text)
		for _, path := range []string{"/", "/team"} {
			s.Eventually(name+": "+path+" is closed", func() error {
				got := s.outcome(path, bearer(key)...)
				return because(got == "403 policy_invalid", got)
			})
		}
		s.drop("policy.yaml")
		s.Eventually(name+": it is removed", func() error {
			got := s.outcome("/", bearer(key)...)
			return because(got == "200", got)
		})
	}
}
