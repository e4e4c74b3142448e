package graph

import (
	"math/rand/v2"
	"testing"
)

func TestReaders_AreASetOfAnySize(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{1, 2, 3, 4, 5, crowd, crowd + 1, crowd + 2, crowd + 3, 4 * crowd} {
		nodes := make([]node, size)
		var set readers
		want := map[*node]bool{}
		for range 50 * size {
			n := &nodes[random.IntN(size)]
			if want[n] {
				set.remove(n)
				delete(want, n)
			} else {
				set.add(n)
				want[n] = true
			}
			set.remove(&node{}) // a node that the set lacks
			got := map[*node]bool{}
			for o := range set.all {
				if got[o] || !want[o] {
					t.Fatalf("of %d rows, one is listed twice or was removed, want each once", size)
				}
				got[o] = true
			}
			if len(got) != len(want) || set.empty() != (len(want) == 0) {
				t.Fatalf("%d rows of %d, empty: %t", len(got), len(want), set.empty())
			}
		}
	}
}
