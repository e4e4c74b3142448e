package request

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// closing returns the index of the first quote in p from i on that is not escaped, which is len(p) without one. Then escaped reports
// whether p ends in the first byte of an escape. At i no escape is open.
//
// Prompts are full of escaped quotes: with two in each 64 bytes, a search for each takes more time than hashing the text, because no
// branch predictor foresees them. By blocks of vectors, which have no branch for an escaped quote, such a text takes as long as one without
// quotes; with bytes.IndexByte it takes some three times as long.
func closing(p []byte, i int) (end int, escaped bool) {
	from := i // of what backslashes are counted in
	for {
		if hasBlocks && len(p)-i >= 64 {
			open := i > from && p[i-1] == '\\' && backslashes(p[from:i])%2 == 1
			if n := skipBlocks(p[i:], open); n > 0 {
				i += n
				if from = i; p[i-1] == '\\' { // it begins an escape: no backslash is before it
					from--
				}
			}
		}
		end = nextQuote(p, i)
		odd := backslashes(p[from:end])%2 == 1
		if end == len(p) || !odd {
			return end, odd
		}
		i = end + 1
		from = i
	}
}

// backslashes returns how many are at the end of p.
func backslashes(p []byte) (n int) {
	for n < len(p) && p[len(p)-1-n] == '\\' {
		n++
	}
	return n
}

// nearby is how many bytes nextQuote reads by words.
const nearby = 64

// nextQuote returns the index of the first quote in p from i on; len(p) without one. Where a text has a quote, it mostly has another
// one nearby, and a call of bytes.IndexByte takes as long as eight words.
func nextQuote(p []byte, i int) int {
	const (
		ones   = 0x0101010101010101
		highs  = 0x8080808080808080
		quotes = '"' * ones
	)
	for last := min(i+nearby, len(p)) - 8; i <= last; i += 8 {
		x := binary.LittleEndian.Uint64(p[i:]) ^ quotes // a quote is a zero byte, of which the lowest gives the lowest high bit
		if found := (x - ones) &^ x & highs; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	if q := bytes.IndexByte(p[i:], '"'); q >= 0 {
		return i + q
	}
	return len(p)
}
