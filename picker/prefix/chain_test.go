package prefix

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

func chainOf(seed uint64, parts ...[]byte) Chain {
	var front, rest Builder
	for _, p := range parts {
		rest.Write(p)
	}
	return Join(new([MaxBlocks]uint64), seed, &front, &rest)
}

func text(n int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(rng.IntN(256))
	}
	return p
}

func TestPrefix_BlocksReachTheLongestPrompts(t *testing.T) {
	if first, last := End(0), End(MaxBlocks-1); first != 64 || last != MaxTokens || End(-1) != 0 {
		t.Errorf("the first block ends at %d tokens, the last at %d; want 64 and %d", first, last, MaxTokens)
	}
	for i := range MaxBlocks {
		if size := End(i) - End(i-1); size != blockPieces(i)*pieceTokens || i >= 64 && size > End(i-1)/64+pieceTokens {
			t.Errorf("block %d has %d tokens, want %d, and at most about a 64th of those before it",
				i, size, blockPieces(i)*pieceTokens)
		}
	}
	for _, size := range []int{0, 255, 256, 400_000, 4 * MaxTokens, 2 << 20} {
		c := chainOf(0, text(size))
		if n := len(c); End(n-1) > size/BytesPerToken || n < MaxBlocks && End(n) <= size/BytesPerToken {
			t.Errorf("%d bytes have %d blocks, which are %d tokens; want as many as fit %d",
				size, n, End(n-1), size/BytesPerToken)
		}
	}
}

func TestPrefix_ChainIsTheSameHoweverThePromptIsCut(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	whole := text(60_000)
	want := chainOf(7, whole)
	for range 50 {
		var b Builder
		for rest := whole; len(rest) > 0; {
			n := min(1+rng.IntN(2000), len(rest))
			if rng.IntN(4) == 0 && len(rest) >= 4 {
				b.WriteToken(binary.LittleEndian.Uint32(rest))
				n = 4
			} else {
				b.Write(rest[:n])
			}
			rest = rest[n:]
		}
		if !slices.Equal(Join(new([MaxBlocks]uint64), 7, new(Builder), &b), want) || b.Size() != len(whole) {
			t.Fatal("the chain differs")
		}
	}
}

// Chains share exactly their common beginning: no block after a difference, and no block under
// another seed.
func TestPrefix_ChainsShareTheirBeginning(t *testing.T) {
	a := text(20_000)
	b := bytes.Clone(a)
	b[10_000]++ // in block 39
	ca, cb, other := chainOf(1, a), chainOf(1, b), chainOf(2, a)
	for i := range ca {
		if (ca[i] == cb[i]) != (i < 39) || ca[i] == other[i] {
			t.Errorf("block %d: %x, with another byte %x, with another seed %x; want the first two equal before "+
				"block 39 only", i, ca[i], cb[i], other[i])
		}
	}
	image := func(hash uint64) Chain {
		var b Builder
		b.Write(a[:5000])
		b.Mix(hash)
		b.Write(a[5000:])
		return Join(new([MaxBlocks]uint64), 1, new(Builder), &b)
	}
	one, two := image(1), image(2)
	for i := range ca {
		if (one[i] == two[i]) != (i < 19) || i >= 19 && one[i] == ca[i] {
			t.Errorf("block %d: %x with an image, %x with another one, %x without; want the first two equal before "+
				"block 19 only", i, one[i], two[i], ca[i])
		}
	}
	if s := Seed(Seed(0, []byte("a")), []byte("b")); s == Seed(Seed(0, []byte("b")), []byte("a")) ||
		s == Seed(Seed(0, []byte("ab")), nil) {
		t.Error("different names have one seed")
	}
}

func TestPrefix_InstructionsPrecedeThePrompt(t *testing.T) {
	a := text(9000)
	join := func(front, rest []byte) Chain {
		var f, r Builder
		f.Write(front)
		r.Write(rest)
		return Join(new([MaxBlocks]uint64), 1, &f, &r)
	}
	one, two, other := join(a[:3000], a[3000:]), join(a[:3000], a[3000:6000]), join(a[:2900], a[3000:])
	if len(one) != 3000/256+6000/256 || !slices.Equal(one[:len(two)], two) {
		t.Errorf("%d and %d blocks, want the shorter list as the beginning of the other", len(one), len(two))
	}
	if !slices.Equal(one[:11], other[:11]) || one[11] == other[11] {
		t.Error("instructions of which one begins like the other do not share just that beginning")
	}
}
