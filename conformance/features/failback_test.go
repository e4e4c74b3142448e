package features

import (
	"net/http"
	"strings"
	"testing"
)

// A cluster that becomes unready loses its place at once. It gets the place back only after it has
// been ready for a while.
func TestFailback_ClusterThatFlapsDoesNotMoveRequests(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	east := s.cluster("east")
	s.cluster("west")
	s.up("failback.yaml", with("ready"))
	s.answers("/far", http.StatusOK)
	const last = "cluster west comes last until it has been ready for 3s"
	comesLast := func() bool { return strings.Contains(s.status(), last) }
	serves := func(want string) {
		t.Helper()
		s.Eventually(want+" serves", func() error {
			by := s.served("/far")
			return because(by == want, by, " does")
		})
	}
	serves("west")
	for range 3 {
		s.write("failback.yaml", with("down"))
		serves("east")
		s.write("failback.yaml", with("ready"))
		s.reports(last)
		for range 10 {
			if by := s.served("/far"); by != "east" && comesLast() {
				t.Errorf(`%q serves while west has only been ready for a moment, want "east"`, by)
			}
		}
	}
	east.set(full)
	if by := s.served("/far"); by != "west" {
		t.Errorf(`%s serves what east declines, want "west"`, by)
	}
	east.reset()
	serves("west")
	if comesLast() {
		t.Errorf("west is first, and the status has %q, want it without", last)
	}
}
