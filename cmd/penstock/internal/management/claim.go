package management

import "k8s.io/client-go/rest"

// claim is which cluster a member is, by what its API server reports, and how that is reached.
type claim struct {
	uid  string
	rest *rest.Config
}

// twin follows the name of a member that may be the same cluster as another one.
const twin = ", which may be another member, too"

// claim notes the cluster of a member. It returns another member that is the same cluster; "":
// there is none. certain: both are reached at one address. Otherwise one of two API servers may
// report the UID of the other one to take its place, so both stay; an import that both write
// belongs to the first (clusterset.HubWriter.Member).
func (h *Hub) claim(name string, of claim) (other string, certain bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for o, is := range h.claims {
		if o == name || is.uid != of.uid {
			continue
		}
		if other = o; sameServer(is.rest, of.rest) {
			return other, true
		}
	}
	h.claims[name] = of
	return other, false
}

// sameServer reports whether two configurations certainly reach one API server: by one address. One
// authority of certificates shows nothing: some providers have one for all their clusters.
func sameServer(a, b *rest.Config) bool { return a.Host == b.Host }

// isMember reports whether the hub has a member of a name.
func (h *Hub) isMember(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.clusters[name] != nil
}
