package schedule

import (
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// With every strategy, a silent server gets no request, not even a retry. If all servers are
// silent, each gets requests as before.
func TestSilent_ServerGetsNoRequestsWithAnyStrategy(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			list := endpoints(t, server{}, server{}, server{})
			s := strategy(t, Options{Name: name})
			s.Prepare(list)
			rank := func(want int) {
				t.Helper()
				seen := map[byte]int{}
				for i := range 200 {
					r := Request{Tokens: 1000, Spread: uint64(i) * 0x9e3779b97f4a7c15, Session: Session{ID: uint64(i)}}
					c := s.Rank(&r, epoch, list, nil, 3, &Scratch{})
					if len(c) == 0 {
						t.Fatal("there is no endpoint")
					}
					for k := range c {
						seen[number(&c[k])]++
					}
				}
				if len(seen) != want {
					t.Errorf("requests go to servers %v, want %d servers", seen, want)
				}
			}
			rank(3)
			list[1].Load().Suspect(epoch)
			rank(2)
			if v := s.Describe(&Request{}, epoch, list, nil); v[1].Out != silence || v[1].State.Silent == nil {
				t.Errorf("explained as %+v, want out as %s", v[1], silence)
			}
			list[0].Load().Suspect(epoch)
			list[2].Load().Suspect(epoch)
			rank(3)
		})
	}
}

// While all other servers are full, a silent server gets a few requests: it may only seem silent.
func TestSilent_ServerGetsAFewRequestsWhileOthersAreFull(t *testing.T) {
	list := endpoints(t, server{}, server{})
	s, leases := strategy(t, Options{Full: Full{InFlight: 100}}), endpoint.NewLeases("me", time.Hour)
	list[1].Load().Suspect(epoch)
	for range 100 {
		leases.Open(&list[0], endpoint.Holder{}, endpoint.Work{}, 0, epoch)
	}
	given := 0
	var scratch Scratch
	for range 10 {
		r := Request{Tokens: 1000}
		if c := s.Rank(&r, epoch, list, nil, 1, &scratch); len(c) > 0 {
			given++
			leases.Open(c[0].Endpoint, endpoint.Holder{}, c[0].Work(&r), 0, epoch)
		}
	}
	if given != endpoint.MaxGiven {
		t.Errorf("it gets %d requests, want %d", given, endpoint.MaxGiven)
	}
	if x := s.Exceeded(&scratch); len(x) != 1 || x[0].Limit != LimitInFlight {
		t.Errorf("the pool is full by %+v, want %s of the others", x, LimitInFlight)
	}
}
