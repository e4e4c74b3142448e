package prefix

import (
	"encoding/binary"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// Chain is a prompt as a list of hashes. Element i is the hash of the prompt's seed and of all
// blocks up to block i. The text after the last full block has no element.
type Chain []uint64

const (
	// MaxBlocks is the maximum length of a Chain. A Chain of this length covers MaxTokens.
	MaxBlocks = 512
	MaxTokens = 131072

	// BytesPerToken is the assumed length of a token in text. Tokenizers average 3 to 5 bytes.
	BytesPerToken = 4

	pieceTokens = 64
	pieceBytes  = pieceTokens * BytesPerToken
	maxPieces   = MaxTokens / pieceTokens
)

// spans lists the sizes of a chain's blocks, in pieces. The first blocks are small, because most
// prompts are short. Later blocks are larger, so that chains stay short.
var spans = [...]struct{ blocks, pieces int }{{128, 1}, {128, 2}, {128, 4}, {128, 9}}

// End returns the number of tokens up to the end of block i, below MaxBlocks; 0 if i is negative.
func End(i int) int {
	pieces := 0
	for n, left := 0, i+1; left > 0 && n < len(spans); n++ {
		in := min(left, spans[n].blocks)
		pieces += in * spans[n].pieces
		left -= in
	}
	return pieces * pieceTokens
}

func blockPieces(i int) int { return spans[min(i/spans[0].blocks, len(spans)-1)].pieces }

// Builder hashes a text that is written in parts. The zero value is ready to use.
type Builder struct {
	size   int
	hash   uint64
	pieces int
	filled int
	hashes [maxPieces]uint64
	rest   [pieceBytes]byte
}

// Reset prepares b for the next text.
func (b *Builder) Reset() { b.size, b.hash, b.pieces, b.filled = 0, 0, 0, 0 }

// Size returns the bytes written, including text beyond MaxTokens.
func (b *Builder) Size() int { return b.size }

// Empty reports whether nothing was written or mixed into b.
func (b *Builder) Empty() bool { return b.size == 0 && b.hash == 0 }

// Write adds text, or encoded token IDs of four bytes each.
func (b *Builder) Write(p []byte) {
	b.size += len(p)
	if b.pieces == maxPieces {
		return
	}
	if b.filled > 0 {
		n := copy(b.rest[b.filled:], p)
		p = p[n:]
		if b.filled += n; b.filled < pieceBytes {
			return
		}
		b.piece(b.rest[:])
	}
	for ; len(p) >= pieceBytes && b.pieces < maxPieces; p = p[pieceBytes:] {
		b.piece(p[:pieceBytes])
	}
	if b.pieces < maxPieces {
		b.filled = copy(b.rest[:], p)
	}
}

// WriteToken adds a token's ID.
func (b *Builder) WriteToken(id uint32) {
	if b.pieces < maxPieces && b.filled+BytesPerToken < pieceBytes {
		binary.LittleEndian.PutUint32(b.rest[b.filled:], id)
		b.filled += BytesPerToken
		b.size += BytesPerToken
		return
	}
	var p [BytesPerToken]byte
	binary.LittleEndian.PutUint32(p[:], id)
	b.Write(p[:])
}

// Mix adds the hash of a prompt part that is not text, such as an image.
func (b *Builder) Mix(hash uint64) { b.hash = mix(b.hash^uint64(b.filled), hash) }

func (b *Builder) piece(p []byte) {
	b.hash = mix(b.hash, xxhash.Sum64(p))
	b.hashes[b.pieces] = b.hash
	b.pieces++
	b.filled = 0
}

func (b *Builder) sum() uint64 { return mix(b.hash, xxhash.Sum64(b.rest[:b.filled])) }

// Join makes a prompt's chain in memory. front (tools, instructions) precedes rest in the prompt,
// but may follow it in a request's body, so each has its Builder. seed distinguishes models,
// adapters and cache salts.
func Join(memory *[MaxBlocks]uint64, seed uint64, front, rest *Builder) Chain {
	restSeed := mix(front.sum(), seed)
	pieces := 0
	for i := range memory {
		pieces += blockPieces(i)
		switch {
		case pieces <= front.pieces:
			memory[i] = max(mix(front.hashes[pieces-1], seed), 1) // never 0, which marks free slots in the tables
		case pieces <= front.pieces+rest.pieces:
			memory[i] = max(mix(rest.hashes[pieces-front.pieces-1], restSeed), 1)
		default:
			return memory[:i]
		}
	}
	return memory[:]
}

// PromptHash returns the hash of a whole prompt. Of text beyond MaxTokens, only the length counts.
func PromptHash(seed uint64, front, rest *Builder) uint64 {
	return mix(mix(mix(seed, front.sum()), rest.sum()), uint64(front.size+rest.size))
}

// Seed adds a name to a seed; the first seed is 0. The order of names matters.
func Seed(seed uint64, name []byte) uint64 { return mix(seed+1, xxhash.Sum64(name)) }

// mix is wyhash's folded multiplication. It is not commutative.
func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xe7037ed1a0b428db)
	return high ^ low ^ bits.RotateLeft64(b, 32)
}
