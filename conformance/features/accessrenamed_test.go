package features

import (
	"strings"
	"testing"
)

// A listener is renamed, and its policy still has the former name. The listener requires keys until
// the policy is corrected, also after a restart, and if no process ran during the rename.
func TestAccess_RenamedListenerStaysGated(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	key := s.keys("create", "alice")
	named := func(listener, section string) []edit {
		return []edit{with("gate"), swap("{name: http, port", "{name: "+listener+", port"),
			swap("name: gw}], apiKeys: {}", "name: gw, sectionName: "+section+"}], apiKeys: {}")}
	}
	const denied = "401 invalid_api_key"
	gated := func(what string) {
		t.Helper()
		s.Eventually(what+": a key is let in", func() error {
			if got := s.outcome("/"); got != denied && got != "EOF" {
				t.Errorf("%s: without a key: got %s, want %s or EOF", what, got, denied)
			}
			got := s.outcome("/", bearer(key)...)
			return because(got == "200", got)
		})
		if got := s.outcome("/"); got != denied {
			t.Errorf("%s: without a key: got %s, want %s", what, got, denied)
		}
	}
	s.up("access.yaml", named("http", "http")...)
	s.becomes("at first", denied, func() string { return s.outcome("/") })
	s.write("access.yaml", named("web", "http")...)
	s.reports("stay gated until all targets exist: Gateway default/gw (section web)")
	gated("renamed")
	restart := func(edits ...edit) {
		t.Helper()
		s.stop()
		if len(edits) > 0 {
			s.write("access.yaml", edits...)
		}
		s.run("up", append([]string{"--concurrency", "1"}, s.flags...)...)
		s.logged("serves at")
	}
	restart()
	s.reports("stay gated until all targets exist: Gateway default/gw (section web)")
	gated("after a restart")
	s.write("access.yaml", named("web", "web")...)
	s.Eventually("the policy is accepted", func() error {
		text := s.status()
		return because(!strings.Contains(text, "stay gated"), text)
	})
	gated("corrected")
	restart(named("last", "web")...)
	s.reports("stay gated until all targets exist: Gateway default/gw (section last)")
	gated("renamed while stopped")
}
