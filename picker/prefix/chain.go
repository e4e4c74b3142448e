package prefix

import (
	"encoding/binary"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// Chain is a prompt as hashes of its blocks. Element i is the hash of everything up to and including block i, and of the
// prompt's seed. What follows the last full block has no element.
type Chain []uint64

const (
	// MaxBlocks is the length of the longest Chain, MaxTokens what it covers.
	MaxBlocks = 512
	MaxTokens = 131072

	// BytesPerToken is the length of a token in text. Tokenizers of today's models make tokens of 3 to 5 bytes.
	BytesPerToken = 4

	pieceTokens = 64
	pieceBytes  = pieceTokens * BytesPerToken
)

// spans is the schedule of blocks: small ones first, because most prompts are short, and larger ones further on, so that a
// chain stays short. A block is at most a sixty-fourth of what precedes it, once more than 64 blocks precede it.
var spans = [...]struct{ blocks, pieces int }{{128, 1}, {128, 2}, {128, 4}, {128, 9}}

// End returns the number of tokens up to and including block i, for i from 0 to MaxBlocks-1; 0 for i below 0.
func End(i int) int {
	pieces := 0
	for n, left := 0, i+1; left > 0 && n < len(spans); n++ {
		in := min(left, spans[n].blocks)
		pieces += in * spans[n].pieces
		left -= in
	}
	return pieces * pieceTokens
}

// blockPieces is the size of block i in pieces of 64 tokens.
func blockPieces(i int) int { return spans[min(i/spans[0].blocks, len(spans)-1)].pieces }

// Builder makes a Chain of a prompt that arrives in parts. Of a part it keeps no more than the bytes of an unfinished piece.
// The zero value is ready.
type Builder struct {
	hash   uint64 // of all pieces so far
	chain  [MaxBlocks]uint64
	blocks int // of chain that are set
	left   int // pieces until the end of the next block; 0 before the first piece
	filled int // bytes in rest
	rest   [pieceBytes]byte
}

// Reset prepares b for the next prompt.
func (b *Builder) Reset() { b.hash, b.blocks, b.left, b.filled = 0, 0, 0, 0 }

// Full reports that b has MaxBlocks blocks: more text changes nothing.
func (b *Builder) Full() bool { return b.blocks == MaxBlocks }

// Write adds text, or token IDs of four bytes each.
func (b *Builder) Write(p []byte) {
	if b.filled > 0 {
		n := copy(b.rest[b.filled:], p)
		p = p[n:]
		if b.filled += n; b.filled < pieceBytes {
			return
		}
		b.filled = 0
		b.piece(b.rest[:])
	}
	for ; len(p) >= pieceBytes; p = p[pieceBytes:] {
		if b.Full() {
			return
		}
		b.piece(p[:pieceBytes])
	}
	b.filled = copy(b.rest[:], p)
}

// WriteByte adds one byte, such as a separator. The error is always nil.
func (b *Builder) WriteByte(c byte) error {
	b.rest[b.filled] = c
	if b.filled++; b.filled == pieceBytes {
		b.filled = 0
		b.piece(b.rest[:])
	}
	return nil
}

// WriteToken adds the ID of a token.
func (b *Builder) WriteToken(id uint32) {
	var p [BytesPerToken]byte
	binary.LittleEndian.PutUint32(p[:], id)
	b.Write(p[:])
}

// Mix adds something that is part of the prompt but not text, such as the hash of an image. It takes no tokens.
func (b *Builder) Mix(hash uint64) { b.hash = mix(b.hash^uint64(b.filled), hash) }

func (b *Builder) piece(p []byte) {
	if b.Full() {
		return
	}
	b.hash = mix(b.hash, xxhash.Sum64(p))
	if b.left == 0 {
		b.left = blockPieces(b.blocks)
	}
	if b.left--; b.left == 0 {
		b.chain[b.blocks] = b.hash
		b.blocks++
	}
}

// Chain returns the chain with a seed, which distinguishes prompts of different models, adapters and salts. It is valid
// until Reset. It may be called once.
func (b *Builder) Chain(seed uint64) Chain {
	c := Chain(b.chain[:b.blocks])
	for i := range c {
		c[i] = max(mix(c[i], seed), 1) // 0 marks free places in the tables
	}
	return c
}

// Seed adds a name to a seed; the first seed is 0. The order of names matters, and where one ends.
func Seed(seed uint64, name []byte) uint64 { return mix(seed+1, xxhash.Sum64(name)) }

// mix combines two hashes; the order matters. It is the folded multiplication of wyhash.
func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xe7037ed1a0b428db)
	return high ^ low ^ bits.RotateLeft64(b, 32)
}
