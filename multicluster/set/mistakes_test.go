package set

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// lastBoard stores the reports of the last call.
type lastBoard struct {
	countingBoard
	mu   sync.Mutex
	last []report.Report
}

func (b *lastBoard) Replace(_ string, reports ...report.Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = reports
}

// finding returns the finding whose problem begins with this text.
func (b *lastBoard) finding(problem string) (found report.Finding, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.last {
		for _, f := range r.Findings {
			if strings.HasPrefix(f.Problem, problem) {
				return f, true
			}
		}
	}
	return found, false
}

// setWith makes a Set with members.
func setWith(board Board, members []v1alpha1.ClusterSetMember) *Set {
	s := New(Config{Store: store.New(), Board: board, Log: slog.New(slog.DiscardHandler)})
	s.adopted.name, s.adopted.named = "here", "here"
	s.adopted.spec = &v1alpha1.ClusterSet{Spec: v1alpha1.ClusterSetSpec{Cluster: "here", Members: members}}
	s.link.federation = federation.New(federation.Config{
		Certificate: func() (*tls.Certificate, error) { return nil, errors.New("none") },
	})
	return s
}

// An API server may still have a ClusterSet from a release in which hubs relayed exports. The
// condition names the replacement for each such member, and the members are ignored.
func TestSet_MembersOfARelayingHubNameWhatToWriteInstead(t *testing.T) {
	board := &lastBoard{}
	s := setWith(board, []v1alpha1.ClusterSetMember{
		{Name: "hub", Peer: &v1alpha1.ClusterSetPeer{Address: "hub:1", Hub: true}}, {Name: "east"},
		{Name: "west", Peer: &v1alpha1.ClusterSetPeer{}},
		{Name: "north", Peer: &v1alpha1.ClusterSetPeer{Address: "north:1"}},
	})
	s.report()
	var accepted string
	for _, c := range board.last[0].Conditions {
		accepted = c.Message
	}
	for problem, want := range map[string]struct{ field, fix string }{
		"member hub: no hub relays between Penstocks any more": {
			"spec.members[0].peer.hub", "join the clusters that it relayed",
		},
		"member east: it has no peer": {
			"spec.members[1]", "add the peer that `penstock clusters show`",
		},
		"member west: it is missing": {
			"spec.members[2].peer.address", "write the address that",
		},
	} {
		found, ok := board.finding(problem)
		if !ok || found.Severity != report.Error || found.Field != want.field ||
			!strings.Contains(found.Fix, want.fix) ||
			!strings.Contains(accepted, want.field+": "+problem) {
			t.Errorf("%s: got %+v, condition %q, want an error at %s, in both", problem, found, accepted, want.field)
		}
	}
	if got, _ := peers(s.adopted.spec, "here"); len(got) != 1 || got[0].Name != "north" {
		t.Errorf("exchanges with %+v, want north alone", got)
	}
}

// Clusters that were made from one template have equal pod ranges. This is a finding, even if the
// ClusterSet does not list the ranges, because members publish them.
func TestSet_PodRangesThatMembersPublishMustNotOverlap(t *testing.T) {
	board := &lastBoard{}
	s := setWith(board, []v1alpha1.ClusterSetMember{
		{Name: "east", Peer: &v1alpha1.ClusterSetPeer{Address: "east:1"}},
		{Name: "west", Peer: &v1alpha1.ClusterSetPeer{Address: "west:1"}},
	})
	s.registry.SetMembers([]string{"east", "west"})
	s.adopted.spec.Spec.PodCIDRs = []string{"10.244.0.0/16"}
	publish := func(member string, sequence uint64, cidrs ...string) {
		stamp := registry.Stamp{Epoch: 1, Sequence: sequence}
		s.apply(registry.Update{Member: member, UID: member, Stamp: stamp, Exports: []registry.Export{
			{Pool: objectid.Pool{Namespace: "default", Name: "chat"}, Stamp: stamp,
				Entry: inferenceapi.ImportedCluster{
					RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000, PodCIDRs: cidrs,
				}},
		}})
		s.reportNow()
	}
	const ofEast, ofWest = "10.244.128.0/17 of member east overlaps 10.244.0.0/16 of this cluster (spec.podCIDRs[0])",
		"10.1.0.0/24 of member west overlaps 10.1.0.0/16 of member east (spec.members[0])"
	publish("east", 1, "10.1.0.0/16", "10.244.128.0/17")
	publish("west", 1, "10.1.0.0/24")
	for _, problem := range []string{ofEast, ofWest} {
		if _, ok := board.finding(problem); !ok {
			t.Errorf("no finding %q", problem)
		}
	}
	publish("east", 2, "10.2.0.0/16")
	for _, problem := range []string{ofEast, ofWest} {
		if _, ok := board.finding(problem); ok {
			t.Errorf("what is corrected is reported: %q", problem)
		}
	}
}

func TestOverlaps_TheNarrowerOfTwoClustersIsNamed(t *testing.T) {
	published := map[string][]string{
		"east":  {"10.0.0.0/8", "10.1.0.0/16", "fd00::/48"},
		"west":  {"10.1.2.0/24", "10.1.2.0/24", "192.168.0.0/24"},
		"north": {"10.1.2.128/25", "10.1.0.0/16", "192.168.1.0/24", "nonsense", "fd00::/64"},
	}
	var set v1alpha1.ClusterSet
	for _, name := range []string{"east", "west", "north"} {
		set.Spec.Members = append(set.Spec.Members, v1alpha1.ClusterSetMember{Name: name})
	}
	var got []string
	for _, f := range overlaps(&set, func(member string) []string { return published[member] }) {
		got = append(got, f.Field+" "+f.Problem[:strings.Index(f.Problem, " (")])
	}
	want := []string{
		"spec.members[1] 10.1.2.0/24 of member west overlaps 10.0.0.0/8 of member east",
		"spec.members[1] 10.1.2.0/24 of member west overlaps 10.0.0.0/8 of member east",
		"spec.members[2] 10.1.2.128/25 of member north overlaps 10.0.0.0/8 of member east",
		"spec.members[2] 10.1.0.0/16 of member north overlaps 10.0.0.0/8 of member east",
		"spec.members[2] fd00::/64 of member north overlaps fd00::/48 of member east",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Without a peer listener, no request of a member arrives. So it is a warning if the ClusterSet
// accepts identities from a member.
func TestSet_IdentitiesWithoutAPeerListenerAreAWarning(t *testing.T) {
	board := &lastBoard{}
	s := setWith(board, []v1alpha1.ClusterSetMember{{Name: "east", Peer: &v1alpha1.ClusterSetPeer{Address: "east:1"},
		Allow: v1alpha1.ClusterSetAllow{Identities: []v1alpha1.Identity{v1alpha1.IdentityOwner}}}})
	s.report()
	found, ok := board.finding("member east: it has no effect")
	if !ok || found.Field != "spec.members[0].allow.identities" || found.Severity != report.Warning {
		t.Errorf("got %+v, want a warning at spec.members[0].allow.identities", found)
	}
	s = setWith(board, s.adopted.spec.Spec.Members)
	s.adopted.spec.Spec.PeerListener = &v1alpha1.ClusterSetPeerListener{Port: 1}
	s.report()
	if found, ok := board.finding("member east: it has no effect"); ok {
		t.Errorf("with a peer listener: got %+v, want no finding", found)
	}
}

// Comparing the pod ranges of a hundred members must be fast, because the set's lock is held.
func TestOverlaps_ManyRangesAreSortedAndNotComparedWithEachOther(t *testing.T) {
	var set v1alpha1.ClusterSet
	published := map[string][]string{}
	for m := range 100 {
		name := fmt.Sprintf("m%d", m)
		set.Spec.Members = append(set.Spec.Members, v1alpha1.ClusterSetMember{Name: name})
		for n := range 64 {
			published[name] = append(published[name], fmt.Sprintf("10.%d.%d.0/24", m, n))
		}
	}
	published["m99"] = append(published["m99"][:63], "10.0.0.0/8")
	if n := len(overlaps(&set, func(member string) []string { return published[member] })); n != 99*64 {
		t.Errorf("%d findings, want %d", n, 99*64)
	}
}
