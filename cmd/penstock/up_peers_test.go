package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
)

// conversations are prompts of 2,000 tokens each, and the server that had each of them last.
type conversations struct {
	url string

	mu   sync.Mutex
	last []string
	lost []error
}

// ask sends conversation i once more. It reports whether the server has it cached.
func (c *conversations) ask(t *testing.T, i int) (hit bool) {
	body := fmt.Sprintf(`{"model": "llama", "max_tokens": 1, "messages": [{"role": "user", "content": "conversation %d: %s"}]}`, i, strings.Repeat(fmt.Sprintf("word-%d ", i), 1000))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("content-type", "application/json")
	got, err := do(client(), req)
	if err == nil && got.status != http.StatusOK {
		err = fmt.Errorf("status %d: %s", got.status, got.body)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.lost = append(c.lost, fmt.Errorf("conversation %d: %w", i, err))
		return false
	}
	by := got.header.Get("x-served-by")
	hit = c.last[i] == by
	c.last[i] = by
	return hit
}

// round sends all conversations, in random order and four at a time, and returns how many were hits. meanwhile is called once
// half of them are sent.
func (c *conversations) round(t *testing.T, meanwhile func()) (hits int) {
	var all sync.WaitGroup
	next := make(chan int)
	var mu sync.Mutex
	for range 4 {
		all.Go(func() {
			for i := range next {
				if c.ask(t, i) {
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

// Two processes pick for one Envoy. One is killed in the middle of traffic and started again, and then the other.
func TestPeers_KilledPickerLosesNoRequestAndNoPrefix(t *testing.T) {
	t.Parallel()
	var servers []string
	for i := range 6 {
		servers = append(servers, modelServer(t, sim.Config{Name: fmt.Sprintf("pod-%d", i+1), KVCacheTokens: 1 << 20}))
	}
	port := freePort(t)
	files := chatFiles(port, servers...)
	sites, begin := peersOf(t, files)
	xds := sites[0].ads() + "," + sites[1].ads()
	sites[0].attach(xds)
	answers(t, local(port), http.StatusOK)

	c := &conversations{url: local(port), last: make([]string, 60)}
	kill := func(i int) func() {
		return func() {
			if err := sites[i].cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	c.round(t, func() {})
	steady := 0
	for range 2 {
		steady += c.round(t, func() {})
	}
	first := c.round(t, kill(0)) + c.round(t, func() {})
	<-sites[0].ended
	begin(0)
	sites[0].errs.expect(t, "connected to a peer")
	second := c.round(t, kill(1)) + c.round(t, func() {}) // what was sent before is known by the snapshot alone
	for _, err := range c.lost {
		t.Error(err)
	}
	n := 2 * len(c.last)
	t.Logf("hits of %d: %d before, %d after one picker is killed, %d after the other is", n, steady, first, second)
	// On a busy machine, picks at the same moment move some conversations.
	if steady < n*3/4 || first < steady*95/100 || second < steady*95/100 {
		t.Errorf("hits of %d: %d before, %d after one picker is killed, %d after the other is", n, steady, first, second)
	}
}

// peersOf starts two processes for the same files that are connected to each other. begin starts
// one of them again.
func peersOf(t *testing.T, files map[string]string) (sites []*site, begin func(i int)) {
	t.Helper()
	sites = []*site{prepare(t, files), prepare(t, files)}
	pickers := fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d", freePort(t), freePort(t))
	begin = func(i int) {
		t.Helper()
		sites[i].run("serve", "--picker", strings.Split(pickers, ",")[i], "--picker-address", pickers, "--peers", sites[0].ads()+","+sites[1].ads())
		sites[i].out.expect(t, "ADS at "+sites[i].ads())
	}
	begin(0)
	begin(1)
	for _, s := range sites {
		s.errs.expect(t, "connected to a peer")
	}
	return sites, begin
}
