package clusterset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/federation"
)

// A hub relays the members without an address, and no others: neither those with a stream of their own, nor those of another hub's objects.
func TestHub_RelaysMembersWithoutAnAddressAlone(t *testing.T) {
	peer := func(address string, hub bool) *v1alpha1.ClusterSetPeer {
		return &v1alpha1.ClusterSetPeer{Address: address, Hub: hub}
	}
	set := &v1alpha1.ClusterSet{Spec: v1alpha1.ClusterSetSpec{Members: []v1alpha1.ClusterSetMember{
		{Name: "here"}, {Name: "east"}, {Name: "west", Peer: peer("west:1", false)}, {Name: "north", Kubeconfig: &v1alpha1.ClusterSetKubeconfig{File: "north"}},
		{Name: "south", ClusterProfile: &v1alpha1.ClusterSetProfile{Name: "south"}}, {Name: "hub", Peer: peer("hub:1", true)}, {Name: "hub2", Peer: peer("hub2:1", true)},
	}}}
	want := []federation.Member{{Name: "east"}, {Name: "west", Address: "west:1", Bundle: []byte{}}, {Name: "hub", Address: "hub:1", Bundle: []byte{}, Hub: true}}
	if diff := cmp.Diff(want, peers(set, "here")); diff != "" {
		t.Error(diff)
	}
	found := map[string]bool{}
	for _, f := range mistakes(set, time.Now()) {
		found[f.Field+": "+f.Problem] = true
	}
	if !found["spec.members[6].peer.hub: member hub2: hub is the hub, and a set has one: this one is not used"] {
		t.Errorf("the second hub: %v", found)
	}
	set.Spec.Members = set.Spec.Members[:3]
	if diff := cmp.Diff(want[1:2], peers(set, "here")); diff != "" {
		t.Errorf("without a hub: %s", diff)
	}
}
