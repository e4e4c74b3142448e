package features

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// promptAPIs maps each API with prompts to a request body whose prompt is two texts, %[1]s and
// %[2]s.
var promptAPIs = map[string]string{
	"/v1/chat/completions": `"messages": [{"role": "system", "content": %[1]q}, {"role": "user", "content": %[2]q}]`,
	"/v1/responses":        `"instructions": %[1]q, "input": %[2]q`,
	"/v1/messages":         `"max_tokens": 4, "system": %[1]q, "messages": [{"role": "user", "content": %[2]q}]`,
	"/v1/embeddings":       `"input": [%[1]q, %[2]q]`,
	"/v1/rerank":           `"query": %[1]q, "documents": [%[2]q]`,
}

// cached matches the usage of an answer whose prompt began with 1,000 cached tokens, which fill 62
// blocks.
var cached = regexp.MustCompile(`"(cached_tokens|cache_read_input_tokens)":992\b`)

func TestPrefix_EachAPIGoesWhereItsPromptIsCached(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a", "--prefix-caching")
	s.server("b", "--prefix-caching")
	s.up("prefix.yaml")
	s.answers("/", http.StatusOK)
	for path, body := range promptAPIs {
		t.Run(path, func(t *testing.T) {
			seen := map[string]bool{}
			for i := range 16 {
				beginning := strings.Repeat(fmt.Sprintf("%s-%d ", path, i), 1000)
				send := func(ending string, stream bool) reply {
					got, err := s.post(s.base()+path,
						fmt.Sprintf(`{"model": "llama", "stream": %t, `, stream)+fmt.Sprintf(body,
							beginning, ending)+"}")
					if err != nil || got.status != http.StatusOK {
						t.Fatalf("%v, %d: %s, want %d", err, got.status, got.body, http.StatusOK)
					}
					return got
				}
				by := send("one", false).by()
				seen[by] = true
				for _, stream := range []bool{false, true} {
					if got := send("another", stream); got.by() != by {
						t.Errorf("a request with the beginning of prompt %d: want it at %q, which has it cached, got "+
							"%q", i, by, got.by())
					} else if !stream && !cached.MatchString(got.body) {
						t.Errorf("prompt %d: got %s, want it cached at the server", i, got.body)
					}
				}
			}
			if len(seen) != 2 {
				t.Errorf("servers of 16 prompts without a common beginning: got %v, want 2", seen)
			}
		})
	}
}
