package request

import (
	"bytes"
	"strings"
	"testing"
)

func slowClosing(p []byte, i int) (int, bool) {
	escaped := false
	for ; i < len(p); i++ {
		switch {
		case escaped:
			escaped = false
		case p[i] == '\\':
			escaped = true
		case p[i] == '"':
			return i, false
		}
	}
	return len(p), escaped
}

// Escapes and runs of backslashes, wherever they are, do not change where a string ends.
func FuzzScanner_FindsTheEndOfStrings(f *testing.F) {
	for _, s := range []string{"", `"`, `\"`, `\\"`, strings.Repeat("a", 31) + `\"` + strings.Repeat("b", 70) + `"`,
		strings.Repeat(`\`, 65) + `"`, strings.Repeat(`\"`, 100), strings.Repeat(`a\`, 64),
		strings.Repeat("a", 63) + `\` + strings.Repeat("b", 64) + `"`, strings.Repeat("x", 200)} {
		for from := range 3 {
			f.Add([]byte(s), uint8(from), uint8(7))
		}
	}
	f.Fuzz(func(t *testing.T, p []byte, from, more uint8) {
		// Repeat the text, because nextQuote reads only longer texts by words.
		p = bytes.Repeat(p, 1+int(more)%16)
		i := min(int(from), len(p))
		end, escaped := closing(p, i)
		wantEnd, wantEscaped := slowClosing(p, i)
		if end != wantEnd || escaped != wantEscaped {
			t.Fatalf("%q from %d: %d %v, want %d %v", p, i, end, escaped, wantEnd, wantEscaped)
		}
	})
}
