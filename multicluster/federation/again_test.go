package federation

import (
	"testing"
)

// forget has a site drop another one from its members; remember adds it again.
func (s *site) forget(hub *site) {
	s.registry.SetMembers(nil)
	if hub == nil {
		s.SetMembers(nil)
		return
	}
	s.behind(hub)
}

// A member that is removed and added again, at the exporter or at the importer, has the exports again, although no record of them has changed.
func TestFederation_MemberThatIsAddedAgainHasTheExportsAgain(t *testing.T) {
	for name, through := range map[string]bool{"direct": false, "through a hub": true} {
		t.Run(name, func(t *testing.T) {
			a, b := newSite(t, "a", id("a")), newSite(t, "b", id("b"))
			var h *site
			var again func()
			if through {
				h = newHub(t, "h")
				again = func() { a.behind(h, b); b.behind(h, a) }
				around(h, a, b)
			} else {
				again = func() { join(a, b) }
				again()
			}
			other := exported("10.0.0.9")
			other.Pool.Name = "other"
			a.exports(exported("10.0.0.1"))
			a.exports(exported("10.0.0.1"), other) // the state's stamp is newer than the record's
			b.has("a=10.0.0.1")
			a.forget(h)
			b.has("a=10.0.0.1, draining")
			again()
			b.has("a=10.0.0.1")
			b.forget(h)
			b.has("a=10.0.0.1, draining")
			again()
			b.has("a=10.0.0.1")
			if through { // the exporter has its address for a while, as if it were reached there
				a.SetMembers([]Member{{Name: "b", Address: b.listener.Addr().String(), Bundle: b.bundle}, {Name: h.name, Address: h.listener.Addr().String(), Bundle: h.bundle, Hub: true}})
				b.has("a=10.0.0.1, draining")
				again()
				b.has("a=10.0.0.1")
			}
			a.exports()
			b.has("a=10.0.0.1, draining")
		})
	}
}
