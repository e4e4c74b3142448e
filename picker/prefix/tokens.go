package prefix

import "slices"

// Place is a position in a prompt of token IDs: the number of tokens before it, and their hash.
type Place struct {
	hash   uint64
	tokens uint32
}

// Next moves the place past a token, and returns AtEnd.
func (p *Place) Next(id uint32) (end bool) {
	p.hash = mix(p.hash, uint64(id))
	p.tokens++
	return p.AtEnd()
}

// Mix adds the hash of a prompt part without token IDs, such as an image.
func (p *Place) Mix(hash uint64) { p.hash = mix(p.hash+1, hash) }

// Tokens returns the number of tokens before the place.
func (p *Place) Tokens() int { return int(p.tokens) }

// AtEnd reports whether a Chain's block ends at the place.
func (p *Place) AtEnd() bool {
	if p.tokens%pieceTokens != 0 || p.tokens == 0 {
		return false
	}
	pieces := int(p.tokens / pieceTokens)
	for _, s := range spans {
		if pieces <= s.blocks*s.pieces {
			return pieces%s.pieces == 0
		}
		pieces -= s.blocks * s.pieces
	}
	return false
}

// Key returns the key of the block that ends at the place. seed is from Index.ReportSeed.
func (p *Place) Key(seed uint64) uint64 { return reportKey(p.hash, seed) }

func reportKey(hash, seed uint64) uint64 { return max(mix(hash, seed), 1) }

// Tokens hashes a prompt's token IDs. The zero value is ready to use.
type Tokens struct {
	place  Place
	blocks int
	hashes [MaxBlocks]uint64
}

// Reset prepares t for the next prompt.
func (t *Tokens) Reset() { t.place, t.blocks = Place{}, 0 }

// Add adds a token.
func (t *Tokens) Add(id uint32) {
	if t.place.Next(id) && t.blocks < MaxBlocks {
		t.hashes[t.blocks] = t.place.hash
		t.blocks++
	}
}

// Len returns the number of tokens.
func (t *Tokens) Len() int { return t.place.Tokens() }

// Exact returns the prompt. It shares t's memory, and is valid until Reset.
func (t *Tokens) Exact() Exact { return Exact{Ends: t.hashes[:t.blocks:t.blocks], Tokens: t.Len()} }

// Exact is a prompt with known token IDs. Ends has the hashes at the ends of a Chain's blocks,
// without a seed, which depends on whether a server reports an adapter.
type Exact struct {
	Ends   []uint64
	Tokens int // 0 if unknown
	Salt   uint64
}

// Clone returns a copy that shares no memory with a Tokens.
func (e Exact) Clone() Exact {
	e.Ends = slices.Clone(e.Ends)
	return e
}

func (e *Exact) chain(memory *[MaxBlocks]uint64, seed uint64) Chain {
	n := min(len(e.Ends), MaxBlocks)
	for i, hash := range e.Ends[:n] {
		memory[i] = reportKey(hash, seed)
	}
	return memory[:n]
}
