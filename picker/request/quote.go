package request

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// closing returns the index of the first quote in p[i:] that is not escaped, or len(p). The result
// escaped reports whether p ends inside an escape. p[i] must not be escaped. Each
// search begins after the last escaped quote, so that many of them cost linear time.
func closing(p []byte, i int) (end int, escaped bool) {
	for from := i; ; from = end + 1 { // backslashes count from the index from
		end = nextQuote(p, from)
		odd := backslashes(p[from:end])%2 == 1
		if end == len(p) || !odd {
			return end, odd
		}
	}
}

func backslashes(p []byte) (n int) {
	for n < len(p) && p[len(p)-1-n] == '\\' {
		n++
	}
	return n
}

const nearby = 64 // bytes that nextQuote reads in words of 8

// Quotes are often close together, and a call of bytes.IndexByte takes as long as the loop over
// eight words.
func nextQuote(p []byte, i int) int {
	const (
		ones   = 0x0101010101010101
		highs  = 0x8080808080808080
		quotes = '"' * ones
	)
	for last := min(i+nearby, len(p)) - 8; i <= last; i += 8 {
		// A quote has become a zero byte, and the lowest zero byte sets the lowest high bit.
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
