package clusterset

import (
	"slices"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// isHub reports whether a member is a hub, which exports nothing and imports nothing.
func isHub(m *v1alpha1.ClusterSetMember) bool { return m.Peer != nil && m.Peer.Hub }

// hasAddress reports whether a member is connected to, rather than reached through the hub.
func hasAddress(m *v1alpha1.ClusterSetMember) bool { return m.Peer != nil && m.Peer.Address != "" }

// behindHub reports whether a member is reached through the hub.
func behindHub(m *v1alpha1.ClusterSetMember) bool {
	return m.Kubeconfig == nil && m.ClusterProfile == nil && !hasAddress(m)
}

// hubOf is the hub of a set, the first that it has; nil: it has none.
func hubOf(set *v1alpha1.ClusterSet) *v1alpha1.ClusterSetMember {
	for i := range set.Spec.Members {
		if m := &set.Spec.Members[i]; isHub(m) {
			return m
		}
	}
	return nil
}

// hubAnswers drops the problem of the hub if some updates have come through it, and reports whether there was one. mu is held.
func (s *Set) hubAnswers(updates []registry.Update) bool {
	if s.spec == nil || hubOf(s.spec) == nil {
		return false
	}
	hub := hubOf(s.spec).Name
	was := s.rejected[hub] != "" && slices.ContainsFunc(updates, func(u registry.Update) bool {
		m, _ := s.registry.Member(u.Member)
		return m.Source == hubSource
	})
	if was {
		delete(s.rejected, hub)
	}
	return was
}

// Sources of members in the registry.
const (
	peerSource = "peer"
	hubSource  = registry.HubSource
)

// peers are the members whose Penstocks exchange with that of a cluster, themselves or through the hub, and the hub.
func peers(set *v1alpha1.ClusterSet, cluster string) (out []federation.Member) {
	hub := hubOf(set)
	for i := range set.Spec.Members {
		switch m := &set.Spec.Members[i]; {
		case m.Name == cluster, m.Kubeconfig != nil, m.ClusterProfile != nil, isHub(m) && m != hub:
		case hasAddress(m):
			out = append(out, federation.Member{Name: m.Name, Address: m.Peer.Address, Bundle: []byte(m.Peer.Bundle), Hub: m.Peer.Hub})
		case hub != nil && hub.Name != cluster:
			behind := federation.Member{Name: m.Name}
			if m.Peer != nil {
				behind.Bundle = []byte(m.Peer.Bundle)
			}
			out = append(out, behind)
		}
	}
	return out
}
