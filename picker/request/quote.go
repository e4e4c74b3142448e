package request

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// closing returns the index of the first quote in p from i on that is not escaped, which is len(p)
// without one. Then escaped reports whether p ends in the first byte of an escape. At i no escape
// is open.
//
// A prompt is full of escaped quotes: the search goes on behind each.
func closing(p []byte, i int) (end int, escaped bool) {
	for from := i; ; from = end + 1 { // backslashes count from there
		end = nextQuote(p, from)
		odd := backslashes(p[from:end])%2 == 1
		if end == len(p) || !odd {
			return end, odd
		}
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

// nextQuote returns the index of the first quote in p from i on; len(p) without one. Where a text
// has a quote, it mostly has another one nearby, and a call of bytes.IndexByte takes as long as
// eight words.
func nextQuote(p []byte, i int) int {
	const (
		ones   = 0x0101010101010101
		highs  = 0x8080808080808080
		quotes = '"' * ones
	)
	for last := min(i+nearby, len(p)) - 8; i <= last; i += 8 {
		// a quote is a zero byte, of which the lowest gives the lowest high bit
		x := binary.LittleEndian.Uint64(p[i:]) ^ quotes
		if found := (x - ones) &^ x & highs; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	if q := bytes.IndexByte(p[i:], '"'); q >= 0 {
		return i + q
	}
	return len(p)
}
