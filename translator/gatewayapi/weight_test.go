package gatewayapi

import (
	"github.com/penstock-project/penstock/translator/model"

	"math"
	"math/big"
	"math/rand"
	"slices"
	"testing"
)

func weights(shares ...share) []uint32 {
	var out []uint32
	for _, w := range weigh(shares) {
		out = append(out, w.Weight)
	}
	return out
}

func backendOf(weight uint32, targets ...uint32) share {
	s := share{weight: weight}
	for _, t := range targets {
		s.targets = append(s.targets, Target{Cluster: model.ClusterID{Name: "c"}, Share: t})
	}
	return s
}

func TestWeight_ImportWithSeveralClustersIsOneBackend(t *testing.T) {
	members := model.MembersCluster("ns", "far")
	imported := func(s share) share { s.members = &Members{Cluster: members}; return s }
	failed, local := imported(share{weight: 1}), backendOf(1, 1)
	for what, c := range map[string]struct {
		shares []share
		want   []model.ClusterID
	}{
		"two clusters": {[]share{imported(backendOf(1, 2, 3)), local},
			[]model.ClusterID{members, {Name: "c"}}},
		"none takes requests now": {[]share{imported(backendOf(1, 0, 0)), local},
			[]model.ClusterID{{Name: "c"}}},
		"a filter that fails is answered 500": {[]share{failed, local}, []model.ClusterID{{}, {Name: "c"}}},
	} {
		var got []model.ClusterID
		for _, w := range weigh(c.shares) {
			got = append(got, w.Cluster)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
}

func TestWeight_SplitsExactly(t *testing.T) {
	for _, c := range []struct {
		name   string
		shares []share
		want   []uint32
	}{
		{"as written", []share{backendOf(90, 1), backendOf(10, 1)}, []uint32{90, 10}},
		{"one backend", []share{backendOf(7, 1)}, []uint32{7}},
		{"zero takes nothing", []share{backendOf(0, 1), backendOf(1, 1)}, []uint32{1}},
		{"nothing at all", []share{backendOf(0, 1)}, nil},
		{"pool and import of two clusters", []share{backendOf(50, 1), backendOf(50, 1, 1)}, []uint32{50, 25, 25}},
		{"pool and import of three clusters", []share{backendOf(50, 1), backendOf(50, 1, 1, 1)},
			[]uint32{150, 50, 50, 50}},
		{"unequal clusters", []share{backendOf(1, 1), backendOf(1, 2, 1)}, []uint32{3, 2, 1}},
		{"a drained cluster", []share{backendOf(1, 1), backendOf(1, 0, 1)}, []uint32{1, 1}},
		{"all clusters drained", []share{backendOf(50, 1), backendOf(50, 0, 0)}, []uint32{50}},
		{"nothing but drained clusters", []share{backendOf(50, 0)}, nil},
		{"unresolved keeps its share", []share{backendOf(1, 1), backendOf(3)}, []uint32{1, 3}},
		{"largest weights", []share{backendOf(1e6, 1), backendOf(1e6, 1)}, []uint32{1e6, 1e6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := weights(c.shares...); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// The exact shares of sixteen backends whose weights are primes do not fit into 32 bits. They must
// be as close as possible, and the sum must never exceed Envoy's limit.
func TestWeight_OverflowStaysWithinOnePart(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for range 200 {
		var shares []share
		total := new(big.Rat)
		for range 1 + random.Intn(16) {
			s := backendOf(uint32(1+random.Intn(1e6)), make([]uint32, 1+random.Intn(5))...)
			for i := range s.targets {
				s.targets[i].Share = uint32(1 + random.Intn(1e6))
			}
			shares = append(shares, s)
			total.Add(total, new(big.Rat).SetInt64(int64(s.weight)))
		}
		got := weights(shares...)
		var sum uint64
		for _, w := range got {
			sum += uint64(w)
		}
		if sum == 0 || sum > math.MaxUint32 {
			t.Fatalf("sum %d, want 1 to %d", sum, uint64(math.MaxUint32))
		}
		i := 0
		for _, s := range shares {
			var all int64
			for _, target := range s.targets {
				all += int64(target.Share)
			}
			for _, target := range s.targets {
				want := big.NewRat(int64(target.Share), all)
				want.Mul(want, new(big.Rat).SetInt64(int64(s.weight)))
				want.Quo(want, total)
				want.Mul(want, new(big.Rat).SetInt64(int64(sum)))
				off := want.Sub(want, new(big.Rat).SetInt64(int64(got[i])))
				if off.Abs(off).Cmp(big.NewRat(1, 1)) >= 0 {
					t.Fatalf("backend %d is off by %s of %d, want less than 1", i, off.FloatString(3), sum)
				}
				i++
			}
		}
	}
}
