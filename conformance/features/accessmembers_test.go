package features

import (
	"net/http"
	"strings"
	"testing"
)

// An exporter's AccessPolicy with members denies requests of other members at its peer listener,
// although the pool is exported to them.
func TestAccessPolicy_MembersGateThePeerListener(t *testing.T) {
	t.Parallel()
	far := newSite(t)
	far.server("a")
	far.member("far", far.peerListener(), "accessmembers.yaml", with("far"))
	here := map[string]*site{}
	for _, name := range []string{"east", "north"} {
		here[name] = newSite(t)
		here[name].member(name, "", "accessmembers.yaml", with("here"))
		here[name].join(far)
		here[name].answers("/", http.StatusOK)
	}
	far.write("accessmembers.yaml", with("far", "members"))
	here["north"].becomes("north is denied", "403 member_not_permitted", func() string {
		return here["north"].outcome("/")
	})
	got, err := here["north"].ask("/", question)
	if err != nil || got.header.Get("content-type") != "application/json" ||
		!strings.Contains(got.body, `"code":"member_not_permitted"`) {
		t.Errorf("got %d %v %s %v, want JSON with the code member_not_permitted", got.status, got.header, got.body, err)
	}
	here["east"].becomes("east is let in", "200", func() string { return here["east"].outcome("/") })
	if got := far.outcome("/"); got != "401 invalid_api_key" {
		t.Error("a client of the exporting cluster without a key:", got)
	}
	far.write("accessmembers.yaml", with("far", "members"), swap("members: [east]", "members: [north, south]"))
	here["east"].becomes("east is denied", "403 member_not_permitted", func() string {
		return here["east"].outcome("/")
	})
	here["north"].becomes("north is let in", "200", func() string { return here["north"].outcome("/") })
	far.Eventually("the member that is missing is a finding", func() error {
		text := far.status()
		return because(strings.Contains(text, "spec.members[1]: ClusterSet gpus has no member south"), text)
	})
	far.write("accessmembers.yaml", with("far"))
	here["east"].answers("/", http.StatusOK)
}
