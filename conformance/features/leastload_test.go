package features

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// Without reports of clusters, this gateway's own requests decide: prompts with a common beginning
// go to the cluster that has read it. A declining cluster gets no requests.
func TestLeastLoad_PromptsGoWhereTheyAreCached(t *testing.T) {
	t.Parallel()
	s, clusters := newSite(t), map[string]*cluster{}
	for _, name := range []string{"east", "north", "west"} {
		clusters[name] = s.cluster(name)
	}
	s.server("spare-1")
	s.up("leastload.yaml", with("far"))
	send := func(topic ...any) string {
		t.Helper()
		prompt := strings.Repeat("a long prompt about "+fmt.Sprint(topic...)+". ", 2000)
		return s.answered("/far", strings.Replace(question, "repeat this", prompt, 1), "penstock-peer-sender",
			"forged").by()
	}
	s.answers("/far", http.StatusOK)
	served := map[string]int{}
	for i := range 12 {
		first := send("topic ", i)
		served[first]++
		for range 5 {
			if again := send("topic ", i); again != first {
				t.Errorf("a prompt that %s has read went to %s, want the same cluster", first, again)
			}
		}
	}
	if len(served) != 3 {
		t.Errorf("12 prompts went to %v, want some at each cluster", served)
	}
	for name, c := range clusters {
		c.mu.Lock()
		if sent := c.sender; sent != "" {
			t.Errorf("the model server of %s sees penstock-peer-sender: %s, want none", name, sent)
		}
		c.mu.Unlock()
	}
	out := s.explain("--last", "4")
	if !strings.Contains(out, "LeastLoad") || !strings.Contains(out, "by own requests") ||
		!regexp.MustCompile(`choice       cluster \w+ of import default/far, cluster`).MatchString(out) {
		t.Errorf("explain: got\n%s\nwant LeastLoad's choice of a cluster by own requests", out)
	}

	// Another cluster serves while one declines, and the declining cluster is not called.
	clusters["east"].set(full)
	topics := 0
	s.Eventually("east declines a request", func() error {
		send("new topic ", topics)
		topics++
		asked, _ := clusters["east"].counts()
		return because(asked > 0, "it has not been asked in ", topics, " requests")
	})
	s.Eventually("the access log shows it", func() error {
		before, _ := clusters["east"].counts()
		for i := range 10 {
			send("another topic ", topics, i)
		}
		topics++
		after, _ := clusters["east"].counts()
		return because(after == before, "it was asked in 10 requests: ", after-before)
	})

	clusters["east"].set(full)
	clusters["north"].set(full)
	clusters["west"].server.Close()
	for i := range 5 {
		if by := send("last topic ", i); by != "spare-1" {
			t.Errorf(`a request that all clusters decline is served by %s, want "spare-1"`, by)
		}
	}
}

// With reports, a cluster that is busy with its own requests gets none. A prompt goes to the
// cluster to which another gateway has sent it.
func TestLeastLoad_ReportsOfClustersDecide(t *testing.T) {
	t.Parallel()
	here := newSite(t)
	here.member("here", "", "leastload.yaml", with("here"))
	exporters := map[string]*site{}
	for _, name := range []string{"east", "west"} {
		exporter, more := newSite(t), ""
		exporter.server(name+"-1", "--inter-token-latency", "200ms")
		if name == "west" { // west is reached through its gateway
			more = exporter.peerListener()
		}
		exporter.member(name, more, "leastload.yaml", with(name))
		exporters[name+"-1"] = exporter
		here.join(exporter)
	}
	send := func(at *site, content string) (by string) {
		const body = `{"model": "llama", "max_tokens": 1, "messages": [{"role": "user", "content": %q}]}`
		got, err := at.ask("/", fmt.Sprintf(body, content))
		if err == nil && got.status == http.StatusOK {
			by = got.by()
		}
		return by
	}
	by := map[string]bool{}
	here.Eventually("both clusters serve", func() error {
		by[send(here, "hello")] = true
		return because(by["east-1"] && by["west-1"], by, "; status:\n", here.status())
	})
	for name, exporter := range exporters { // each exporter must count its requests
		sent := 0
		here.Eventually(name+" counts a request", func() error {
			before := exporter.arrived()
			if by := send(here, fmt.Sprint("count ", sent)); by != name {
				return fmt.Errorf("a request went to %q, want %q", by, name)
			}
			sent++
			now := exporter.arrived()
			return because(now == before+1, now, " requests have arrived, and before ", before)
		})
	}
	here.listsRequests()
	busyClusterGetsNone(t, here, exporters["east-1"], send)
	for i := range 6 {
		at := []string{"east-1", "west-1"}[i/2%2]
		before := here.knownBlocks(at)
		prompt := strings.Repeat(fmt.Sprintf("question %d for %s. ", i, at), 300)
		if by := send(exporters[at], prompt); by != at {
			t.Fatalf("a prompt at the gateway of %s went to %q, want its own pool", at, by)
		}
		here.Eventually("the other cluster reports the prompt", func() error {
			now := here.knownBlocks(at)
			return because(now > before, now, " blocks are known, as before")
		})
		if by := send(here, prompt); by != at {
			t.Errorf("a prompt that %s has cached went to %q, want the same:\n%s", at, by, here.explain("--last", "2"))
		}
	}
}

func (s *site) listsRequests() {
	s.Helper()
	s.Eventually("clusters list shows the requests of both members", func() error {
		text := s.print("clusters", "list")
		for _, line := range []string{
			`to east: [1-9]\d* requests served, 0 failed, \d+ declined there; [1-9]\d* bytes of responses, first byte after [1-9]`,
			`to west: [1-9]`,
		} {
			if !regexp.MustCompile(line).MatchString(text) {
				return fmt.Errorf("got\n%s\nwant the line %s", text, line)
			}
		}
		if s.series(`penstock_import_ended_requests_total{cluster="west",import="default/chat",outcome="served"}`) ==
			0 {
			return errors.New("there is no series of west")
		}
		return nil
	})
}

func busyClusterGetsNone(t *testing.T, here, east *site, send func(at *site, content string) string) {
	t.Helper()
	busy, end := context.WithCancel(t.Context())
	var streams sync.WaitGroup
	defer streams.Wait()
	defer end()
	for range 60 {
		streams.Go(func() {
			for busy.Err() == nil {
				_ = east.stream(busy, "/", strings.Repeat("go on ", 50), func(string) {}) // ends with busy
			}
		})
	}
	here.Eventually("no request goes to the busy cluster", func() error {
		for i := range 20 {
			if by := send(here, fmt.Sprint("short ", i)); by != "west-1" {
				return fmt.Errorf(`request %d went to %q, want "west-1"`, i, by)
			}
		}
		return nil
	})
	end()
	streams.Wait()
	here.Eventually("the cluster reports that it is idle again", func() error {
		wait := here.series(`penstock_selection_reported_wait_seconds{cluster="east",import="default/chat"}`)
		return because(wait <= 0.1, "a wait of ", wait, " s")
	})
}

// arrived returns how many requests of cluster "here" have arrived at this cluster.
func (s *site) arrived() float64 {
	return s.series(`penstock_selection_arrived_requests_total{member="here",pool="default/chat"}`)
}

func (s *site) knownBlocks(server string) float64 {
	return s.series(fmt.Sprintf(`penstock_selection_prompt_blocks{cluster=%q,import="default/chat"}`,
		strings.TrimSuffix(server, "-1")))
}
