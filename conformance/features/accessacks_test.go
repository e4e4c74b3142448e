package features

import (
	"strings"
	"testing"
)

// A policy from a file is not Programmed before a proxy is connected and has sent its ACK.
func TestAccess_PolicyOfAFolderIsProgrammedAfterTheACK(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	s.write("access.yaml", with("gate"))
	s.serve()
	waits := func() bool { return strings.Contains(s.page("/status"), "Gateway default/gw: no proxy is connected") }
	s.Eventually("the policy waits for a proxy", func() error { return because(waits(), s.page("/status")) })
	s.attach(s.ads())
	s.Eventually("the policy is programmed", func() error {
		page := s.page("/status")
		return because(!strings.Contains(page, "no proxy is connected") &&
			!strings.Contains(page, "have not acknowledged"), page)
	})
	if got := s.outcome("/"); got != "401 invalid_api_key" {
		t.Errorf(`a request without a key to a programmed policy: got %s, want "401 invalid_api_key"`, got)
	}
}
