package request

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// closing returns the index of the first unescaped quote in p[i:], or len(p). escaped reports
// whether p ends inside an escape. p[i] must not be escaped. After an escaped quote, the search
// goes on behind it, so that many escaped quotes take linear time.
func closing(p []byte, i int) (end int, escaped bool) {
	for from := i; ; from = end + 1 { // backslashes count from this index on
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

// nextQuote returns the index of the first quote in p[i:], or len(p). It first reads nearby bytes
// in its own loop, because quotes are often close together, and a call of bytes.IndexByte takes as
// long as the whole loop.
func nextQuote(p []byte, i int) int {
	const (
		ones   = 0x0101010101010101
		highs  = 0x8080808080808080
		quotes = '"' * ones
	)
	for last := min(i+nearby, len(p)) - 8; i <= last; i += 8 {
		// Each quote is a zero byte in x. The lowest zero byte sets the lowest high bit in found.
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
