package hub

import "k8s.io/client-go/rest"

type claim struct {
	uid  string
	rest *rest.Config
}

// claim records a member's cluster UID. other is another member with the same UID; "": none. If
// certain, both have the same address. Otherwise one API server may have faked the UID, so both
// stay.
func (h *Hub) claim(name string, c claim) (other string, certain bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for o, old := range h.claims {
		if o == name || old.uid != c.uid {
			continue
		}
		if other = o; sameServer(old.rest, c.rest) {
			return other, true
		}
	}
	h.claims[name] = c
	return other, false
}

// sameServer ignores CAs, because some providers use one CA for all clusters.
func sameServer(a, b *rest.Config) bool { return a.Host == b.Host }

func (h *Hub) isMember(name string) bool { return h.at(name) != nil }
