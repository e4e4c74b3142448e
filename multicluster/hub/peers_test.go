package hub_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/hub"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// peered is a world whose hub has peers, and what they report of exports of chat.
type peered struct {
	*world
	reports   map[string][]registry.Placement // by exporter
	published []string
}

func newPeered(t *testing.T, peers []string, members ...string) *peered {
	w := newWorld(t, members...)
	p := &peered{world: w, reports: map[string][]registry.Placement{}}
	w.Hub = hub.New(hub.Config{
		Published:  func(member string) { p.published = append(p.published, member) },
		Placements: func(member string, _ registry.Pool) []registry.Placement { return p.reports[member] },
	})
	p.peers(peers...)
	p.set()
	for _, n := range members {
		p.Restore(n, nil)
	}
	return p
}

// peers replaces the peers.
func (p *peered) peers(names ...string) {
	var list []hub.Peer
	for _, n := range names {
		list = append(list, hub.Peer{Name: n})
	}
	p.SetPeers(list)
}

// reported has a peer report the newest incarnation of a member's export.
func (p *peered) reported(member, peer, reason string) {
	p.t.Helper()
	is, _ := p.Publication(member)
	if len(is.Exports) != 1 {
		p.t.Fatalf("%s publishes %+v", member, is)
	}
	p.reports[member] = append(slices.DeleteFunc(p.reports[member], func(r registry.Placement) bool { return r.Member == peer }),
		registry.Placement{Member: peer, Pool: chat, Reason: reason, Incarnation: is.Exports[0].Incarnation})
}

// publishes describes what peers receive of a member.
func (p *peered) publishes(member, want string) {
	p.t.Helper()
	is, ok := p.Publication(member)
	got := fmt.Sprint(ok)
	if is.Draining {
		got += " draining"
	}
	if !is.Connected && ok {
		got += " silent"
	}
	for _, e := range is.Exports {
		got += fmt.Sprintf(" %s@%s with %d endpoints to %v", e.Pool.Name, e.Entry.EndpointPicker.Service[0].Addresses[0], len(e.Entry.Endpoints), e.To)
	}
	if got != want {
		p.t.Errorf("%s publishes %q, want %q", member, got, want)
	}
}

// Peers receive what a member exports with its endpoints, and members that are no peers without them; the condition Exported has both.
func TestHub_PeersReceiveWhatMembersExportAndReportIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeered(t, []string{"south", "north"}, "east", "west")
		go func() { _ = p.Run(t.Context()) }()
		p.publishes("east", "false")
		p.exports("west", "")
		p.exports("east", "192.0.2.1")
		p.publishes("east", "true chat@192.0.2.1 with 1 endpoints to []")
		p.has("west", "east 192.0.2.1")
		p.Written("west", chat, hub.Writing{Clusters: []string{"east"}})
		p.condition("east", "not known")
		p.reported("east", "north", "")
		p.condition("east", "not known")
		time.Sleep(20 * time.Second)
		p.condition("east", "False/MemberUnreachable") // south has not reported
		p.reported("east", "south", "NotAllowed")
		p.condition("east", "False/NotAllowed")
		p.reported("east", "south", "")
		p.condition("east", "True/Exported")

		// Exported again, also to a peer that it was not for before: what was reported earlier does not count.
		p.exports("east", "192.0.2.1", "north")
		p.condition("east", "True/Exported")
		p.exports("east", "192.0.2.1", "north", "south")
		p.publishes("east", "true chat@192.0.2.1 with 1 endpoints to [north south]")
		p.condition("east", "not known")
		p.reported("east", "north", "")
		p.reported("east", "south", "")
		p.condition("east", "True/Exported")
		p.exports("east", "")
		p.publishes("east", "true")
		p.exports("east", "192.0.2.1", "south")
		p.condition("east", "not known")

		// A peer that is added is waited for.
		p.reported("east", "south", "")
		p.condition("east", "True/Exported")
		p.exports("east", "192.0.2.2")
		p.reported("east", "south", "")
		p.reported("east", "north", "")
		p.condition("east", "True/Exported")
		p.peers("north", "south", "third")
		p.condition("east", "not known")
		time.Sleep(20 * time.Second)
		p.condition("east", "False/MemberUnreachable")
		p.peers("north", "south")
		p.condition("east", "True/Exported")
	})
}

// A member whose API server is silent keeps what peers have of it, and is published as such.
func TestHub_SilentMemberWithdrawsNothingFromPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeered(t, []string{"north"}, "east")
		p.exports("east", "192.0.2.1")
		p.Lost("east")
		p.publishes("east", "true silent chat@192.0.2.1 with 1 endpoints to []")
		p.published = nil
		p.Lost("east")
		p.set()
		if len(p.published) > 0 {
			t.Errorf("a silent member is published: %s", p.published)
		}
		p.Contact("east", "uid-east")
		p.publishes("east", "true chat@192.0.2.1 with 1 endpoints to []")
		if strings.Join(p.published, " ") != "east" {
			t.Errorf("a member that answers is published: %s", p.published)
		}
	})
}

// What the hub's ClusterSet allows a member limits what peers receive, as it does at other members.
func TestHub_MemberExportsToPeersWithinWhatItIsAllowed(t *testing.T) {
	none, one := int32(0), int32(1)
	for _, c := range []struct {
		allow                v1alpha1.ClusterSetAllow
		draining             bool
		publishes, condition string
	}{
		{v1alpha1.ClusterSetAllow{Addresses: []string{"198.51.100.0/24"}}, false, "true", "False/NotAllowed"},
		{v1alpha1.ClusterSetAllow{Namespaces: []string{"other"}}, false, "true", "False/NotAllowed"},
		{v1alpha1.ClusterSetAllow{Exports: &none}, false, "true", "False/NotAllowed"},
		{v1alpha1.ClusterSetAllow{Endpoints: &none}, false, "true chat@192.0.2.1 with 0 endpoints to []", "not known"},
		{v1alpha1.ClusterSetAllow{Exports: &one, Namespaces: []string{"ns"}, Addresses: []string{"192.0.2.0/24"}}, true, "true draining chat@192.0.2.1 with 1 endpoints to []", "not known"},
	} {
		p := newPeered(t, []string{"north"}, "east")
		p.exports("east", "192.0.2.1")
		m := p.members["east"]
		m.Allow, m.Draining = c.allow, c.draining
		p.members["east"], p.published = m, nil
		if p.set(); len(p.published) != 1 {
			t.Errorf("%+v: %s is published", c.allow, p.published)
		}
		p.exports("east", "192.0.2.1")
		p.publishes("east", c.publishes)
		p.condition("east", c.condition)
	}
}
