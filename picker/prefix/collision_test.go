package prefix

import (
	"math/rand/v2"
	"testing"
)

// Clients choose prompts, and so the hashes of blocks. Hashes with equal low bits must not form one
// run, whatever the secret is.
func TestPrefix_ChosenHashesDoNotCollide(t *testing.T) {
	before := secret
	defer func() { secret = before }()
	for range 300 {
		secret = [2]uint64{rand.Uint64(), rand.Uint64()}
		collide(t)
	}
}

func collide(t *testing.T) {
	t.Helper()
	const blocks = 4096
	for _, shift := range []uint{0, 20, 40} { // the hashes differ only from this bit on
		x := New(Config{Blocks: 2 * blocks})
		s := x.Server(key(1))
		for i := range uint64(blocks) {
			x.Add(s, Chain{(i + 1) << shift})
		}
		longest := 0
		for i := range x.holders.shards {
			if table := x.holders.shards[i].table.Load(); table != nil {
				longest = max(longest,
					longestRun(len(table.slots), func(i int) bool { return table.slots[i].key.Load() != 0 }))
			}
		}
		// In a half full table, random places make short runs, and equal places one run of
		// thousands of slots.
		if n := longestRun(len(s.slots), func(i int) bool { return s.slots[i] != 0 }); n > 150 || longest > 100 {
			t.Errorf("hashes that differ from bit %d on: runs of %d slots of the server, and %d of a shard; want at "+
				"most 150 and 100", shift, n, longest)
		}
		if s.blocks != blocks {
			t.Fatalf("%d blocks, want %d", s.blocks, blocks)
		}
	}
}

func longestRun(n int, used func(i int) bool) (longest int) {
	run := 0
	for i := range 2 * n { // a run may continue at the table's beginning
		if run++; !used(i % n) {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}
