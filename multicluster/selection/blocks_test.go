package selection

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// model is a reference implementation of blocks: a list, with the most recently used block first.
type model struct {
	list []uint64
	max  int
}

func (m *model) add(chain []uint64) {
	chain = chain[:min(len(chain), m.max)]
	for i := len(chain) - 1; i >= 0; i-- {
		m.list = slices.DeleteFunc(m.list, func(h uint64) bool { return h == chain[i] })
		m.list = slices.Insert(m.list, 0, chain[i])
	}
	m.list = m.list[:min(len(m.list), m.max)]
}

func (b *blocks) hashes() (out []uint64) {
	if len(b.nodes) == 0 {
		return nil
	}
	for n := b.nodes[0].next; n != 0; n = b.nodes[n].next {
		out = append(out, b.nodes[n].hash)
	}
	return out
}

func TestSelection_BlocksAreThoseUsedLast(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		var b blocks
		want := model{max: 300}
		b.limit(want.max)
		for range 400 {
			if random.IntN(50) == 0 {
				want.max = 1 + random.IntN(400)
				b.limit(want.max)
				want.list = want.list[:min(len(want.list), want.max)]
			}
			c := chain(random.Uint64N(30), 1+random.IntN(40))
			if known := b.match(c); known != matched(want.list, c) {
				t.Fatalf("seed %d: %d blocks of %v match, want %d", seed, known, c, matched(want.list, c))
			}
			b.add(c)
			want.add(c)
			if got := b.hashes(); !slices.Equal(got, want.list) || len(b.at) != len(got) {
				t.Fatalf("seed %d: %d blocks, want %d", seed, len(got), len(want.list))
			}
		}
	}
}

func matched(list, chain []uint64) int {
	for i, h := range chain {
		if !slices.Contains(list, h) {
			return i
		}
	}
	return len(chain)
}
