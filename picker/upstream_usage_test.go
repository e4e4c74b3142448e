package picker

import (
	"strings"
	"testing"
)

// The token counts are at the end of a response, however it is cut into pieces.
func TestUpstreamMetrics_TokensAreTheResponsesOwn(t *testing.T) {
	filler := strings.Repeat(`{"choices":[{"delta":{"content":"x"}}]}`, 300)
	for body, want := range map[string][2]int{
		`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":7,` +
			`"prompt_tokens_details":{"cached_tokens":4}}}`: {7, 4},
		filler +
			`data: {"usage": {"completion_tokens": 12, "total_tokens": 20}}`: {12, 0},
		`data: {"usage":{"output_tokens":1}} data: {"usage":{"output_tokens":33,"cache_read_input_tokens":5}}`: {33, 5},
		`{"choices":[]}`:          {0, 0},
		`{"completion_tokens":`:   {0, 0},
		`{"completion_tokens":-1`: {0, 0},
	} {
		for _, size := range []int{1, 7, 5000, len(body)} {
			var u usageReader
			for rest := body; rest != ""; {
				n := min(size, len(rest))
				u.write([]byte(rest[:n]))
				rest = rest[n:]
			}
			if got := [2]int{u.number(usageOutput), u.number(usageCached)}; got != want || len(u.tail) > maxTail {
				t.Errorf("%.80s in pieces of %d: %v, want %v", body, size, got, want)
			}
		}
	}
}
