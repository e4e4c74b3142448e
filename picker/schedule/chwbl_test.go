package schedule

import (
	"cmp"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// neutree implements Neutree's algorithm independently: it returns the replica for a key.
func neutree(key uint64, ids []string, load map[string]int, factor float64) string {
	type node struct {
		at uint64
		id string
	}
	var ring []node
	total := 0
	for _, id := range ids {
		total += load[id]
		for i := range 100 {
			sum := md5.Sum(fmt.Appendf(nil, "%s:%d", id, i))
			at, err := strconv.ParseUint(hex.EncodeToString(sum[:])[:16], 16, 64)
			if err != nil {
				panic(err)
			}
			ring = append(ring, node{at, id})
		}
	}
	slices.SortFunc(ring, func(a, b node) int { return cmp.Compare(a.at, b.at) })
	first := slices.IndexFunc(ring, func(n node) bool { return n.at >= key })
	if first < 0 {
		first = 0
	}
	average := float64(total+1) / float64(len(ids))
	for i := range ring {
		if id := ring[(first+i)%len(ring)].id; float64(load[id]+1) <= average*factor {
			return id
		}
	}
	return ring[first].id
}

func TestCHWBL_EqualsNeutree(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		servers := make([]server, 1+random.IntN(12))
		busy := random.IntN(9)
		for i := range servers {
			servers[i] = server{stale: true, inFlight: random.IntN(1 + busy), draining: random.IntN(6) == 0}
		}
		list := endpoints(t, servers...)
		factor := []float64{1, 1.25, 2}[random.IntN(3)]
		s := strategy(t, Options{Name: "chwbl", Hashing: Hashing{LoadFactor: factor}})
		var ids []string
		load := map[string]int{}
		for i := range list {
			if !list[i].Draining {
				ids = append(ids, list[i].Text)
				load[list[i].Text] = servers[i].inFlight
			}
		}
		for range 50 {
			key := max(1, random.Uint64())
			c := s.Rank(&Request{Spread: key}, epoch, list, nil, 3, &Scratch{})
			if len(ids) == 0 {
				if len(c) > 0 {
					t.Fatalf("%v is draining", c[0].Endpoint.Text)
				}
				continue
			}
			left, have := slices.Clone(ids), map[string]int{}
			for _, k := range c {
				have[k.Endpoint.Text]++
			}
			if want := neutree(key, left, load, factor); c[0].Endpoint.Text != want || len(have) != min(3, len(ids)) {
				t.Fatalf("key %x, load %v, factor %g: %s of %v, want %s", key, load, factor, c[0].Endpoint.Text, have,
					want)
			}
		}
	}
}

func TestCHWBL_BoundMovesRequestsOn(t *testing.T) {
	// The requests in flight are 3 and 0. With this request the mean is 2, and the bound is 2.5.
	list := endpoints(t, server{stale: true, inFlight: 3}, server{stale: true})
	s := strategy(t, Options{Name: "chwbl"})
	for key := range uint64(64) {
		r := Request{Spread: key<<58 | 1}
		if c := s.Rank(&r, epoch, list, nil, 2, &Scratch{}); number(&c[0]) != 1 || number(&c[1]) != 0 {
			t.Fatalf("key %x goes to the endpoint above the bound: %d, want 1", r.Spread, number(&c[0]))
		}
	}
	verdicts := s.Describe(&Request{Spread: 1}, epoch, list, nil)
	if verdicts[0].Out != overLoad || verdicts[1].Out != "" || verdicts[0].Place+verdicts[1].Place != 3 ||
		verdicts[0].State.InFlight != 3 {
		t.Errorf("got %+v, want the first out for its load of 3, and places 1 and 2", verdicts)
	}
	// Without a key, the endpoint with the fewest requests in flight is first.
	if got := ranked(s, list, 2); got[0] != 1 || got[1] != 0 {
		t.Errorf("without a key: got %v, want 1 before 0", got)
	}
	if verdicts := s.Describe(&Request{}, epoch, list, nil); verdicts[0].Place != 0 || verdicts[0].Out != "" ||
		verdicts[0].State.InFlight != 3 {
		t.Errorf("without a key: got %+v, want no places, and the first not out", verdicts)
	}
}

func TestCHWBL_MembershipMovesFewKeys(t *testing.T) {
	list := endpoints(t, make([]server, 10)...)
	s := strategy(t, Options{Name: "chwbl", Hashing: Hashing{LoadFactor: 100}})
	moved := 0
	random := rand.New(rand.NewPCG(3, 4))
	var scratch Scratch
	for range 1000 {
		r := Request{Spread: max(1, random.Uint64())}
		before := s.Rank(&r, epoch, list, nil, 1, &scratch)[0].Endpoint.Text
		after := s.Rank(&r, epoch, list[:9], nil, 1, &scratch)[0].Endpoint.Text
		if before != after {
			moved++
			if before != list[9].Text {
				t.Fatalf("a key moved from %s, which is still there, want %s", before, list[9].Text)
			}
		}
	}
	if moved < 50 || moved > 200 {
		t.Errorf("%d of 1000 keys moved, want at least 50 and at most 200", moved)
	}
	r := Request{Spread: 77}
	if n := testing.AllocsPerRun(100, func() { s.Rank(&r, epoch, list, nil, 3, &scratch) }); n != 0 {
		t.Errorf("%v allocations a pick, want 0", n)
	}
}

func TestCHWBL_RingIsBounded(t *testing.T) {
	list := make([]endpoint.Endpoint, 3000)
	for i := range list {
		list[i].Text = strconv.Itoa(i)
	}
	r := newRing(1000, list, nil)
	if len(r.points) > maxPoints || len(r.points) < maxPoints/2 {
		t.Errorf("%d points, want at most %d and at least %d", len(r.points), maxPoints, maxPoints/2)
	}
	if again := newRing(1000, slices.Clone(list), r); again != r {
		t.Error("the ring of equal endpoints is made again")
	}
}

func BenchmarkCHWBL1000(b *testing.B) {
	servers := make([]server, 1000)
	for i := range servers {
		servers[i] = server{stale: true, inFlight: i % 7}
	}
	list := endpoints(b, servers...)
	s := strategy(b, Options{Name: "chwbl"})
	var scratch Scratch
	b.ReportAllocs()
	for key := uint64(1); b.Loop(); key += 1 << 50 {
		s.Rank(&Request{Spread: key}, epoch, list, nil, 3, &scratch)
	}
}
