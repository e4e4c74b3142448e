package features

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// conversations are prompts of 2,000 tokens each, with the server that last answered each prompt.
type conversations struct {
	s    *site
	mu   sync.Mutex
	last []string
	lost []error
}

func conversation(i int) string {
	const body = `{"model": "llama", "max_tokens": 1, "messages": [{"role": "user", "content": "conversation %d: %s"}]}`
	return fmt.Sprintf(body, i, strings.Repeat(fmt.Sprintf("word-%d ", i), 1000))
}

// ask sends conversation i again. It reports whether the same server as before has answered.
func (c *conversations) ask(i int) (hit bool) {
	got, err := c.s.ask("/", conversation(i))
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || got.status != http.StatusOK {
		c.lost = append(c.lost, fmt.Errorf("conversation %d: got %d %s %w, want 200", i, got.status, got.body, err))
		return false
	}
	hit = c.last[i] == got.by()
	c.last[i] = got.by()
	return hit
}

// round sends all conversations in random order, four at a time, and counts the hits. After half of
// them, it calls meanwhile.
func (c *conversations) round(meanwhile func()) (hits int) {
	var all sync.WaitGroup
	next := make(chan int)
	var mu sync.Mutex
	for range 4 {
		all.Go(func() {
			for i := range next {
				if c.ask(i) {
					mu.Lock()
					hits++
					mu.Unlock()
				}
			}
		})
	}
	for n, i := range rand.Perm(len(c.last)) {
		if n == len(c.last)/2 {
			meanwhile()
		}
		next <- i
	}
	close(next)
	all.Wait()
	return hits
}

// Two processes pick for one Envoy. Under traffic, one is killed and restarted, then the other is
// killed.
func TestPeers_KilledPickerLosesNoRequestAndNoPrefix(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for i := range 6 {
		s.server(fmt.Sprint("pod-", i+1), "--kv-cache-tokens", fmt.Sprint(1<<20))
	}
	other := s.twoProcesses("peers.yaml")
	s.attach(s.ads() + "," + other.ads())
	s.answers("/", http.StatusOK)

	c := &conversations{s: s, last: make([]string, 60)}
	nothing := func() {}
	c.round(nothing)
	steady := c.round(nothing) + c.round(nothing)
	first := c.round(s.kill) + c.round(nothing)
	s.serve()
	s.logged("connected to a peer")
	second := c.round(other.kill) + c.round(nothing) // the first process has earlier requests only from its snapshot
	for _, err := range c.lost {
		t.Errorf("a request was lost, want none: %v", err)
	}
	// On a busy machine, simultaneous picks move some conversations.
	n := 2 * len(c.last)
	t.Logf("hits of %d: %d before, %d after one picker is killed, %d after the other is", n, steady, first, second)
	if steady < n*3/4 || first < steady*95/100 || second < steady*95/100 {
		t.Error("too few")
	}
}
