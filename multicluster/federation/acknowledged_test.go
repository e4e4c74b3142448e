package federation

import (
	"context"
	"testing"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// frozen makes a site apply no update until the test calls thawed.
func (s *site) frozen() (thawed func()) {
	hold := make(chan struct{})
	s.mu.Lock()
	s.hold = hold
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		s.hold = nil
		s.mu.Unlock()
		close(hold)
	}
}

// waits returns once the site is not frozen.
func (s *site) waits(ctx context.Context) {
	s.mu.Lock()
	hold := s.hold
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
}

// acknowledges polls until the result of Acknowledged for a member is want.
func (s *site) acknowledges(what, member string, want bool) {
	s.t.Helper()
	poll.Until(s.t, what, func() bool { acknowledged, _ := s.Acknowledged(member); return acknowledged == want })
}

// Acknowledged is false while a member's process is frozen. A cluster that drains must wait for the
// member, because the member's Envoys continue to send requests.
func TestFederation_MemberThatIsFrozenHasNotAcknowledged(t *testing.T) {
	a, b, c := newSite(t, "a", id("a")), newSite(t, "b", id("b")), newSite(t, "c", id("c"))
	join(a, b, c)
	a.exports(exported("10.0.0.1"))
	a.acknowledges("b is up to date", "b", true)
	thaw := b.frozen()
	if err := a.SetExports(nil, true); err != nil {
		t.Fatal(err)
	}
	if acknowledged, changed := a.Acknowledged("b"); acknowledged || changed == nil {
		t.Error("a frozen member has acknowledged")
	}
	a.acknowledges("c is up to date", "c", true)
	a.publishState() // a renewal is no change, so c stays up to date
	if acknowledged, _ := a.Acknowledged("b"); acknowledged {
		t.Error("a frozen member has acknowledged a renewal")
	}
	if acknowledged, _ := a.Acknowledged("c"); !acknowledged {
		t.Error("a renewal is a change")
	}
	thaw()
	a.acknowledges("b is up to date again", "b", true)
	b.stop()
	a.acknowledges("b is gone", "b", false)
}
