package hub_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/hub"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// from is what a peer exports: chat at an address, "" for nothing, at a stamp.
func from(peer string, sequence uint64, address string, change ...func(*inferenceapi.ImportedCluster)) registry.Update {
	u := registry.Update{Member: peer, UID: "uid-" + peer, Stamp: registry.Stamp{Epoch: 1, Sequence: sequence}, Snapshot: true}
	if address != "" {
		e := inferenceapi.ImportedCluster{RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000,
			EndpointPicker: &inferenceapi.EndpointPickerImport{Service: inferenceapi.ServiceImports{{Addresses: []string{address}}}}}
		for _, c := range change {
			c(&e)
		}
		u.Exports = []registry.Export{{Pool: chat, Stamp: u.Stamp, Entry: e, Incarnation: 7}}
	}
	return u
}

func to(names ...string) map[registry.Pool][]string { return map[registry.Pool][]string{chat: names} }

// stands describes where exports of peers stand at a member.
func (p *peered) stands(member, want string) {
	p.t.Helper()
	placed, pending, known := p.Standings(member)
	got := fmt.Sprint(known)
	for i, list := range [][]registry.Placement{placed, pending} {
		for _, is := range list {
			got += fmt.Sprintf(" %s:%s%d", is.Member, is.Reason, is.Incarnation)
			if i > 0 {
				got += " pending"
			}
		}
	}
	if got != want {
		p.t.Errorf("at %s: %q, want %q", member, got, want)
	}
}

// Members import what a peer exports to them, and the peer has where it stands there. A peer that is silent, or a second process of it that is older,
// withdraws nothing.
func TestHub_MembersImportWhatPeersExport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeered(t, []string{"north"}, "east", "west")
		go func() { _ = p.Run(t.Context()) }()
		p.exports("east", "")
		p.exports("west", "192.0.2.1")
		p.stands("east", "false") // north may have exported something before
		if p.Settled("north") {
			t.Error("a peer from which nothing was received is settled")
		}
		p.Apply(from("north", 3, "10.0.0.3"), to("east", "west"))
		if !p.Settled("north") {
			t.Error("a peer whose exports are known is not settled")
		}
		p.has("east", "north 10.0.0.3, west 192.0.2.1")
		p.has("west", "north 10.0.0.3")
		p.stands("east", "false north:7 pending")
		p.Written("east", chat, hub.Writing{Clusters: []string{"north", "west"}})
		p.stands("east", "true north:7")
		p.Written("west", chat, hub.Writing{Reason: "Conflict", Message: "of a person"})
		p.stands("west", "true north:Conflict7")

		p.Apply(from("north", 2, ""), nil)
		p.Apply(from("north", 3, "10.0.0.3"), to("east"))
		p.has("east", "north 10.0.0.3, west 192.0.2.1")
		p.has("west", "north 10.0.0.3 False/Draining")
		p.stands("west", "true")
		p.Connected("north", false)
		time.Sleep(20 * time.Second)
		p.Contact("west", "uid-west")
		p.has("east", "north 10.0.0.3 Unknown/Unreachable, west 192.0.2.1")
		p.SetPeers([]hub.Peer{{Name: "north", Allow: v1alpha1.ClusterSetAllow{Namespaces: []string{"ns"}}}}) // which is no news of it
		time.Sleep(20 * time.Second)
		p.Contact("west", "uid-west")
		p.has("east", "north 10.0.0.3 Unknown/Unreachable, west 192.0.2.1")
		p.Apply(registry.Update{Member: "north", UID: "uid-north", Stamp: registry.Stamp{Epoch: 1, Sequence: 4}, Draining: true}, nil)
		p.has("east", "north 10.0.0.3 False/Draining, west 192.0.2.1")
		p.Apply(registry.Update{Member: "north", UID: "uid-north", Stamp: registry.Stamp{Epoch: 1, Sequence: 5}}, nil)
		p.has("east", "north 10.0.0.3, west 192.0.2.1")
		p.Apply(registry.Update{Member: "north", UID: "uid-north", Stamp: registry.Stamp{Epoch: 1, Sequence: 6}, Unread: map[registry.Pool]string{chat: "too large"}}, to("east"))
		p.has("east", "north 10.0.0.3, west 192.0.2.1")
		p.Apply(registry.Update{Member: "north", UID: "uid-north", Stamp: registry.Stamp{Epoch: 1, Sequence: 7}, Withdrawn: []registry.Pool{chat}}, nil)
		p.has("east", "north 10.0.0.3 False/Draining, west 192.0.2.1")
		p.Apply(from("north", 8, "10.0.0.8"), to("east"))
		p.has("east", "north 10.0.0.8, west 192.0.2.1")

		// A cluster that was made anew takes the name over after the lease, and one that is removed drains.
		anew := from("north", 1, "10.9.0.1")
		anew.UID = "another"
		p.Apply(anew, to("east"))
		p.has("east", "north 10.0.0.8, west 192.0.2.1")
		time.Sleep(20 * time.Second)
		p.Contact("west", "uid-west")
		p.Apply(registry.Update{Member: "north", UID: "another", Stamp: anew.Stamp}, nil)
		p.has("east", "north 10.9.0.1, west 192.0.2.1")
		p.peers()
		p.has("east", "north 10.9.0.1 False/Draining, west 192.0.2.1")
		p.Apply(from("north", 9, "10.0.0.9"), to("east"))
		p.has("east", "north 10.9.0.1 False/Draining, west 192.0.2.1")
	})
}

// A hub that starts again, and does not reach a peer, keeps what its imports have of it, and reports it.
func TestHub_StartedAgainKeepsWhatAnAwayPeerExported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeered(t, []string{"north", "south"})
		go func() { _ = p.Run(t.Context()) }()
		p.members["east"] = hub.Member{Name: "east", Store: store.New(), Namespace: func(string) bool { return true }, Own: func(registry.Pool) []string { return nil }}
		p.set()
		p.Apply(from("south", 1, ""), nil)
		p.Restore("east", map[registry.Pool][]inferenceapi.ImportedCluster{chat: {{Name: "north", RoutingMode: inferenceapi.ParentMode}, {Name: "south", RoutingMode: inferenceapi.ParentMode}}})
		p.exports("east", "")
		p.Written("east", chat, hub.Writing{Clusters: []string{"north", "south"}})
		p.has("east", "north Unknown/Unreachable, south False/Draining")
		p.stands("east", "false")
		time.Sleep(16 * time.Second)
		p.has("east", "north Unknown/Unreachable, south False/Draining")
		p.stands("east", "true north:0")
		p.Apply(from("north", 1, "10.0.0.1"), to("east"))
		p.has("east", "north 10.0.0.1, south False/Draining")
	})
}

// What the hub's ClusterSet allows a peer, and what a gateway without a certificate can use, is what members get.
func TestHub_PeerExportsWithinWhatItIsAllowed(t *testing.T) {
	ranges := func(list ...string) func(*inferenceapi.ImportedCluster) {
		return func(e *inferenceapi.ImportedCluster) { e.PodCIDRs = list }
	}
	parents := func(peer ...bool) func(*inferenceapi.ImportedCluster) {
		return func(e *inferenceapi.ImportedCluster) {
			e.RoutingMode, e.EndpointPicker = inferenceapi.ParentMode, nil
			for _, is := range peer {
				e.Parents = append(e.Parents, inferenceapi.ParentImport{Peer: is, Service: inferenceapi.ServiceImports{{Addresses: []string{"10.0.0.1"}}}})
			}
		}
	}
	zero := int32(0)
	for _, c := range []struct {
		name   string
		allow  v1alpha1.ClusterSetAllow
		entry  func(*inferenceapi.ImportedCluster)
		stands string
		want   string // ranges and gateways
	}{
		{"all", v1alpha1.ClusterSetAllow{}, ranges("10.1.0.0/16"), "false north:7 pending", "[10.1.0.0/16] 0"},
		{"address", v1alpha1.ClusterSetAllow{Addresses: []string{"192.0.2.0/24"}}, ranges(), "true north:NotAllowed7", ""},
		{"namespace", v1alpha1.ClusterSetAllow{Namespaces: []string{"other"}}, ranges(), "true north:NotAllowed7", ""},
		{"number", v1alpha1.ClusterSetAllow{Exports: &zero}, ranges(), "true north:NotAllowed7", ""},
		{"ranges", v1alpha1.ClusterSetAllow{PodCIDRs: []string{"10.1.0.0/16", "10.2.3.0/24"}}, ranges("10.1.7.0/24", "10.2.0.0/16", "10.3.0.0/16"), "false north:7 pending", "[10.1.7.0/24 10.2.3.0/24] 0"},
		{"its ranges alone", v1alpha1.ClusterSetAllow{PodCIDRs: []string{"10.1.0.0/16"}}, ranges(), "false north:7 pending", "[10.1.0.0/16] 0"},
		{"no range", v1alpha1.ClusterSetAllow{PodCIDRs: []string{"10.1.0.0/16"}}, ranges("10.2.0.0/16"), "true north:NotAllowed7", ""},
		{"a picker for members", v1alpha1.ClusterSetAllow{}, func(e *inferenceapi.ImportedCluster) { e.EndpointPicker.Peer = true }, "true north:NotSupported7", ""},
		{"peer listeners", v1alpha1.ClusterSetAllow{}, parents(true, true), "true north:NotSupported7", ""},
		{"a peer listener", v1alpha1.ClusterSetAllow{}, parents(true, false), "false north:7 pending", "[] 1"},
	} {
		p := newPeered(t, nil, "east")
		p.exports("east", "")
		for _, allow := range []v1alpha1.ClusterSetAllow{{Addresses: []string{"203.0.113.0/24"}}, c.allow} { // it may be changed
			p.SetPeers([]hub.Peer{{Name: "north", Allow: allow}})
			p.Apply(from("north", 1, "10.0.0.1", c.entry), to("east"))
		}
		p.stands("east", c.stands)
		got := ""
		if s, ok := p.Import("east", chat, 1); ok {
			i := slices.IndexFunc(s.Clusters, func(e inferenceapi.ImportedCluster) bool { return e.Name == "north" })
			got = fmt.Sprint(s.Clusters[i].PodCIDRs, len(s.Clusters[i].Parents))
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
