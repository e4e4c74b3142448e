package federation

import (
	"testing"
)

// forget has a site drop all of its members.
func (s *site) forget() {
	s.registry.SetMembers(nil)
	s.SetMembers(nil)
}

// A member that is removed and added again, at the exporter or at the importer, has the exports again, although no record of them has changed.
func TestFederation_MemberThatIsAddedAgainHasTheExportsAgain(t *testing.T) {
	a, b := newSite(t, "a", id("a")), newSite(t, "b", id("b"))
	join(a, b)
	other := exported("10.0.0.9")
	other.Pool.Name = "other"
	a.exports(exported("10.0.0.1"))
	a.exports(exported("10.0.0.1"), other) // the state's stamp is newer than the record's
	b.has("a=10.0.0.1")
	a.forget()
	b.has("a=10.0.0.1, draining")
	join(a, b)
	b.has("a=10.0.0.1")
	b.forget()
	b.has("a=10.0.0.1, draining")
	join(a, b)
	b.has("a=10.0.0.1")
	a.exports()
	b.has("a=10.0.0.1, draining")
}
