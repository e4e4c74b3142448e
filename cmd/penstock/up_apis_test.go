package main

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
)

// promptAPIs are the APIs with prompts, each with the body of a request whose prompt is two texts, of which %[1]s is the first.
var promptAPIs = map[string]string{
	"/v1/chat/completions": `"messages": [{"role": "system", "content": %[1]q}, {"role": "user", "content": %[2]q}]`,
	"/v1/responses":        `"instructions": %[1]q, "input": %[2]q`,
	"/v1/messages":         `"max_tokens": 4, "system": %[1]q, "messages": [{"role": "user", "content": %[2]q}]`,
	"/v1/embeddings":       `"input": [%[1]q, %[2]q]`,
	"/v1/rerank":           `"query": %[1]q, "documents": [%[2]q]`,
}

// cached is found in the usage of an answer whose prompt begins with 1,000 cached tokens, of which 62 blocks are full.
var cached = regexp.MustCompile(`"(cached_tokens|cache_read_input_tokens)":992\b`)

func TestPrefix_GatewaySendsEachAPIWhereItsPromptIsCached(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	up(t, chatFiles(port, modelServer(t, sim.Config{Name: "a", PrefixCaching: true}), modelServer(t, sim.Config{Name: "b", PrefixCaching: true})))
	answers(t, local(port), http.StatusOK)
	for path, body := range promptAPIs {
		t.Run(path, func(t *testing.T) {
			seen := map[string]bool{}
			for i := range 16 {
				beginning := strings.Repeat(fmt.Sprintf("%s-%d ", path, i), 1000)
				send := func(ending string, stream bool) reply {
					text := fmt.Sprintf(`{"model": "llama", "stream": %t, `, stream) + fmt.Sprintf(body, beginning, ending) + "}"
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, local(port)+path, strings.NewReader(text))
					if err != nil {
						t.Fatal(err)
					}
					got, err := do(client(), req)
					if err != nil || got.status != http.StatusOK {
						t.Fatalf("%v, %d: %s", err, got.status, got.body)
					}
					return got
				}
				first := send("one", false)
				server := first.header.Get("x-served-by")
				seen[server] = true
				for _, stream := range []bool{false, true} {
					if got := send("another", stream); got.header.Get("x-served-by") != server {
						t.Errorf("prompt %d is cached at %q, and a request that begins with it went to %q", i, server, got.header.Get("x-served-by"))
					} else if !stream && !cached.MatchString(got.body) {
						t.Errorf("prompt %d: the server had not cached it: %s", i, got.body)
					}
				}
			}
			if len(seen) != 2 {
				t.Errorf("16 prompts without a common beginning all went to %v", seen)
			}
		})
	}
}
