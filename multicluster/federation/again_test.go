package federation

import (
	"testing"
	"time"

	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/multicluster/federation/wiretest"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// forget makes a site drop all of its members.
func (s *site) forget() {
	s.registry.SetMembers(nil)
	s.SetMembers(nil)
}

// A member that is removed and added again, at the exporter or at the importer, gets the exports
// again, although their records do not change.
func TestFederation_MemberThatIsAddedAgainHasTheExportsAgain(t *testing.T) {
	a, b := newSite(t, "a", id("a")), newSite(t, "b", id("b"))
	join(a, b)
	other := exported("10.0.0.9")
	other.Pool.Name = "other"
	a.exports(exported("10.0.0.1"))
	a.exports(exported("10.0.0.1"), other) // makes the state's stamp newer than the record's
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

// A member loses its epoch with its state folder or Lease, and then publishes with a lower epoch.
// The importer must accept its exports again.
func TestFederation_MemberThatLostItsEpochIsServedAgain(t *testing.T) {
	a, b := newSite(t, "a", id("a")), newSite(t, "b", id("b"))
	join(a, b)
	a.Publish("uid-of-a", 9, time.Now())
	a.exports(exported("10.0.0.1"))
	b.has("a=10.0.0.1")
	a.Publish("uid-of-a", 1, time.Now())
	a.exports(exported("10.0.0.2"))
	b.has("a=10.0.0.2")
	a.exports()
	b.has("a=10.0.0.2, draining")
	a.exports(exported("10.0.0.3"))
	b.has("a=10.0.0.3")
}

// The stamp of a record is limited to the stamp of its cluster's state. A record with a higher
// stamp could never be withdrawn.
func TestFederation_RecordIsNotNewerThanItsCluster(t *testing.T) {
	f := New(Config{Connected: func(string, bool) {}})
	var got registry.Update
	f.cfg.Apply = func(u ...registry.Update) bool { got = u[0]; return true }
	f.members["at"] = Member{Name: "m"}
	err := f.receive(t.Context(), channel.Update{Peer: "at", Snapshot: true, Items: []channel.Item{
		{Value: wiretest.Value(`{"uid":"u","epoch":1,"sequence":3}`)},
		{Key: "ns/good", Value: wiretest.Value(`{"epoch":1,"sequence":3,"entry":{"routingMode":"ParentMode"}}`)},
		{Key: "ns/newer", Value: wiretest.Value(`{"epoch":9,"sequence":4,"entry":{"routingMode":"ParentMode"}}`)},
	}})
	if err != nil || len(got.Exports) != 2 {
		t.Fatalf("got %v, %+v, want 2 exports", err, got)
	}
	for _, e := range got.Exports {
		if e.Stamp != (registry.Stamp{Epoch: 1, Sequence: 3}) {
			t.Errorf("%s has the stamp %v, want 1.3", e.Pool.Name, e.Stamp)
		}
	}
}
