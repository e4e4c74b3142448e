package schedule

import (
	"cmp"
	"net/netip"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// Session identifies a request's session. The zero value means no session.
type Session struct {
	ID uint64         // hash of the client's ID; 0 without an ID
	At netip.AddrPort // the session's endpoint; zero if unknown
	By uint16         // how the request names its session, for the caller's records
}

// SessionID returns the Session.ID of a client's ID.
func SessionID(id []byte) uint64 { return max(1, hash64(id)) }

// session is the strategy "session", which keeps a session's requests at one endpoint. A new
// session gets the endpoint of its ID on the ring of the strategy "chwbl", the same in all pickers.
// A request without an ID gets the endpoint with the fewest requests in flight. If a session's
// endpoint accepts no requests, the session counts as new.
type session struct {
	rings  rings
	random func() uint64
}

func newSession(o Options) *session {
	return &session{rings: rings{nodes: cmp.Or(o.Hashing.VirtualNodes, defaultVirtualNodes)}, random: o.Random}
}

func (s *session) prepare(list []endpoint.Endpoint) { s.rings.of(list) }

func (s *session) choose(r *Request, list []endpoint.Endpoint, c []Candidate, states []endpoint.State,
	n int) []Candidate {
	key := r.Session.ID
	if i, found := s.sticky(r, list, c); found {
		if key == 0 { // without an ID, retries follow the ring from this endpoint
			var text [64]byte
			key = hash64(append(text[:0], c[i].Endpoint.Text...))
		}
		at := c[i].lot
		return s.rings.of(list).first(key, c, n, func(k *Candidate) bool { return k.lot == at })
	}
	if key == 0 {
		return fewest(c, states, n, s.random())
	}
	return s.rings.of(list).first(key, c, n, func(*Candidate) bool { return true })
}

func (s *session) sticky(r *Request, list []endpoint.Endpoint, c []Candidate) (int, bool) {
	if !r.Session.At.IsValid() {
		return 0, false
	}
	lot, found := place(list, r.Session.At)
	if !found {
		return 0, false
	}
	return index(c, uint32(lot))
}

func (s *session) explain(r *Request, list []endpoint.Endpoint, c []Candidate, _ []endpoint.State, verdicts []Verdict) {
	if i, found := s.sticky(r, list, c); found {
		verdicts[c[i].lot].Session = true
	}
	if r.Session.ID == 0 {
		return
	}
	for i, k := range s.rings.of(list).first(r.Session.ID, c, maxRanked, func(*Candidate) bool { return true }) {
		verdicts[k.lot].Place = i + 1
	}
}
