package schedule

import (
	"net/netip"
	"testing"
	"time"
)

func TestSession_StaysWhereItIs(t *testing.T) {
	list := endpoints(t, server{inFlight: 1}, server{inFlight: 9}, server{inFlight: 5, draining: true},
		server{inFlight: 3})
	s := strategy(t, Options{Name: "session"})
	pick := func(r Session) []Candidate {
		return s.Rank(&Request{Session: r}, epoch, list, nil, 3, &Scratch{})
	}
	for _, id := range []uint64{0, 1, 1 << 63} {
		if c := pick(Session{ID: id, At: list[1].Addr}); number(&c[0]) != 1 || len(c) != 3 ||
			c[1].Endpoint == c[2].Endpoint || number(&c[1]) == 1 {
			t.Errorf("a session at the busiest endpoint, ID %x: got %d, want 1, and then the two others",
				id, number(&c[0]))
		}
	}
	begun := pick(Session{ID: 77})[0].Endpoint
	for _, at := range []netip.AddrPort{{}, list[2].Addr, netip.MustParseAddrPort("10.9.9.9:80")} {
		if c := pick(Session{ID: 77, At: at}); c[0].Endpoint != begun {
			t.Errorf("a session at %v, which takes no requests: got another place, want its place on the ring", at)
		}
	}
	if c := pick(Session{At: list[2].Addr}); number(&c[0]) != 0 || number(&c[1]) != 3 {
		t.Errorf("without an ID: got %d and %d, want 0 and 3, with the fewest in flight", number(&c[0]), number(&c[1]))
	}
	other := strategy(t, Options{Name: "session"})
	chwbl := strategy(t, Options{Name: "chwbl", Hashing: Hashing{LoadFactor: 100}})
	for i := range uint64(100) {
		id := Mix(i)
		a := pick(Session{ID: id})[0].Endpoint
		b := other.Rank(&Request{Session: Session{ID: id}}, epoch, list, nil, 1, &Scratch{})[0].Endpoint
		if c := chwbl.Rank(&Request{Spread: id}, epoch, list, nil, 1, &Scratch{})[0].Endpoint; a != b || a != c {
			t.Fatalf("ID %x begins at %s, %s and %s; want one endpoint", id, a.Text, b.Text, c.Text)
		}
	}
	verdicts := s.Describe(&Request{Session: Session{ID: 77, At: list[1].Addr}}, epoch, list, nil)
	if !verdicts[1].Session || verdicts[0].Session || verdicts[0].Place == 0 {
		t.Errorf("verdicts %+v, want the session at the second alone, and places on the ring", verdicts)
	}
	var scratch Scratch
	r := Request{Session: Session{ID: 77, At: list[1].Addr}}
	if n := testing.AllocsPerRun(100, func() { s.Rank(&r, epoch, list, nil, 3, &scratch) }); n != 0 {
		t.Errorf("%v allocations a pick, want 0", n)
	}
}

func TestSession_TableIsBoundedAndExpires(t *testing.T) {
	var s Sessions[netip.AddrPort]
	a, b := netip.MustParseAddrPort("10.0.0.1:80"), netip.MustParseAddrPort("10.0.0.2:80")
	const ttl = time.Minute
	s.Keep(1, a, epoch, ttl)
	s.Keep(0, a, epoch, ttl)
	if s.Len() != 1 || s.Find(0, epoch, ttl).IsValid() {
		t.Error("requests without an ID are kept")
	}
	if at := s.Find(1, epoch.Add(ttl), ttl); at != a {
		t.Errorf("at %v, want %v", at, a)
	}
	s.Keep(1, b, epoch.Add(ttl), ttl) // a request renews the session
	if at := s.Find(1, epoch.Add(2*ttl), ttl); at != b {
		t.Errorf("at %v, want %v", at, b)
	}
	if at := s.Find(1, epoch.Add(2*ttl+1), ttl); at.IsValid() {
		t.Errorf("after its time: got %v, want none", at)
	}
	later := epoch.Add(3 * ttl)
	for id := range uint64(2 * maxSessions) {
		s.Keep(id+1, a, later, ttl)
	}
	if s.Len() != maxSessions || s.Find(1, later, ttl).IsValid() || s.Find(2*maxSessions, later, ttl) != a {
		t.Errorf("%d sessions, want %d, the last ones", s.Len(), maxSessions)
	}
	for id := range uint64(maxSessions) {
		s.Keep(id<<32, b, later.Add(2*ttl), ttl)
	}
	if s.Find(2*maxSessions, later.Add(2*ttl), ttl).IsValid() {
		t.Error("an expired session is found")
	}
}
