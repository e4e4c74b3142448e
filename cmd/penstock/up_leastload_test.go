package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
)

// leastLoad is a policy by which requests for the import %[1]s go to the cluster that serves them first.
const leastLoad = `apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: selection}
spec:
  targetRef: {group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: %[1]s}
  selection: {policy: LeastLoad}
`

// Without reports, requests go by this gateway's own: prompts with one beginning to the cluster that has read it, and others evenly. A cluster that
// declines is left alone, and nothing that passes between clusters reaches a model server.
func TestLeastLoad_PromptsGoWhereTheyAreCached(t *testing.T) {
	t.Parallel()
	clusters := map[string]*exportingCluster{}
	entries := ""
	for _, name := range []string{"east", "north", "west"} {
		clusters[name] = newExportingCluster(t, name)
	}
	entries = clusters["east"].entry("EndpointMode", 1) + clusters["north"].entry("EndpointMode", 1) + clusters["west"].entry("ParentMode", 1)
	port := freePort(t)
	s := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "policy.yaml": fmt.Sprintf(leastLoad, "far") + "  spill: [{name: spare}]\n",
		"spare.yaml": poolYAML("spare"), "servers.yaml": serversYAML("spare", modelServer(t, sim.Config{Name: "spare-1"})),
		"far.yaml":    routeYAML("far", "/far", "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far}"),
		"import.yaml": "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: far}\nstatus:\n  clusters:\n" + entries,
	})
	send := func(prompt string) string {
		t.Helper()
		body := strings.Replace(question, "repeat this", prompt, 1)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, local(port)+"/far/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("penstock-peer-sender", "forged")
		a, err := do(client(), req)
		if err != nil {
			t.Fatal(err)
		}
		if a.status != http.StatusOK {
			t.Fatalf("%d: %s", a.status, a.body)
		}
		return a.header.Get("x-served-by")
	}
	answers(t, local(port)+"/far", http.StatusOK)
	long := func(topic string) string { return strings.Repeat("a long prompt about "+topic+". ", 2000) }
	served := map[string]int{}
	for i := range 12 {
		first := send(long(fmt.Sprint("topic ", i)))
		served[first]++
		for range 5 {
			if again := send(long(fmt.Sprint("topic ", i))); again != first {
				t.Errorf("a prompt that %s has read went to %s", first, again)
			}
		}
	}
	if len(served) != 3 {
		t.Errorf("12 prompts went to %v, want some at each cluster", served)
	}
	for name, c := range clusters {
		c.mu.Lock()
		if sent := c.sender; sent != "" {
			t.Errorf("the model server of %s sees penstock-peer-sender: %s", name, sent)
		}
		c.mu.Unlock()
	}
	if out := s.penstock("explain", "--last", "4"); !strings.Contains(out, "LeastLoad") || !regexp.MustCompile(`choice       cluster \w+ of import default/far, cluster`).MatchString(out) || !strings.Contains(out, "by own requests") {
		t.Errorf("explain shows no choice of a cluster:\n%s", out)
	}

	// A cluster that declines is followed by another, and is not asked again meanwhile.
	clusters["east"].set(func(c *exportingCluster) { c.declines = http.StatusTooManyRequests })
	topics := 0
	eventually(t, "east declines a request", func() error {
		send(long(fmt.Sprint("new topic ", topics)))
		topics++
		if asked, _ := clusters["east"].counts(); asked == 0 {
			return fmt.Errorf("it has not been asked in %d requests", topics)
		}
		return nil
	})
	eventually(t, "the access log shows it", func() error {
		before, _ := clusters["east"].counts()
		for i := range 10 {
			send(long(fmt.Sprint("another topic ", topics, i)))
		}
		topics++
		if after, _ := clusters["east"].counts(); after != before {
			return fmt.Errorf("it was asked %d times in 10 requests", after-before)
		}
		return nil
	})

	// Once all have declined, the import spills.
	for _, name := range []string{"east", "north"} {
		clusters[name].set(func(c *exportingCluster) { c.declines = http.StatusTooManyRequests })
	}
	clusters["west"].server.Close()
	for i := range 5 {
		if by := send(long(fmt.Sprint("last topic ", i))); by != "spare-1" {
			t.Errorf("a request that all clusters decline is served by %s", by)
		}
	}
}

// What other clusters report decides: a cluster that is busy with requests of its own gets none, and a prompt goes to the cluster where another
// gateway has sent it.
func TestLeastLoad_ReportsOfClustersDecide(t *testing.T) {
	t.Parallel()
	port, ports := freePort(t), map[string]int{"east-1": freePort(t), "west-1": freePort(t)}
	here := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "set.yaml": clusterSetYAML("here"), "policy.yaml": fmt.Sprintf(leastLoad, "chat"),
		"route.yaml": routeYAML("far", "/", "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: chat}"),
	}, "--members-listen", "127.0.0.1:"+fmt.Sprint(freePort(t)))
	exporters := map[string]*site{}
	for name, at := range ports {
		files := chatFiles(at, modelServer(t, sim.Config{Name: name, InterTokenLatency: 200 * time.Millisecond}))
		files["set.yaml"], files["pool.yaml"] = clusterSetYAML(strings.TrimSuffix(name, "-1")), exportedPool(exportAnnotation)
		if name == "west-1" { // through its gateway
			files["set.yaml"], files["pool.yaml"] = withPeers(files["set.yaml"], freePort(t)), exportedPool(exportAnnotation+", inference.networking.x-k8s.io/export-mode: ParentMode")
		}
		exporters[name] = up(t, files, "--members-listen", "127.0.0.1:"+fmt.Sprint(freePort(t)), "--picker", "127.0.0.1:"+fmt.Sprint(freePort(t)))
		here.join(exporters[name])
	}
	send := func(at int, content string) (by string) {
		got := ask(t, local(at), fmt.Sprintf(`{"model": "llama", "max_tokens": 1, "messages": [{"role": "user", "content": %q}]}`, content))
		if got.status == http.StatusOK {
			by = got.header.Get("x-served-by")
		}
		return by
	}
	by := map[string]bool{}
	eventually(t, "both clusters serve", func() error {
		if by[send(port, "hello")] = true; !by["east-1"] || !by["west-1"] {
			return fmt.Errorf("%v; status:\n%s", by, here.penstock("status"))
		}
		return nil
	})

	for name, exporter := range exporters { // each counts what it is sent
		sent := 0
		eventually(t, name+" counts a request", func() error {
			before := exporter.arrived()
			if by := send(port, fmt.Sprint("count ", sent)); by != name {
				return fmt.Errorf("a request went to %q", by)
			}
			sent++
			if now := exporter.arrived(); now != before+1 {
				return fmt.Errorf("%d requests have arrived, and %d before", now, before)
			}
			return nil
		})
	}
	eventually(t, "clusters list shows the requests of both members", func() error {
		text := here.penstock("clusters", "list")
		for _, line := range []string{`to east: [1-9]\d* requests served, 0 failed, \d+ declined there; [1-9]\d* bytes of responses, first byte after [1-9]`, `to west: [1-9]`} {
			if !regexp.MustCompile(line).MatchString(text) {
				return fmt.Errorf("no line %s:\n%s", line, text)
			}
		}
		if here.series(`penstock_import_ended_requests_total{cluster="west",import="default/chat",outcome="served"} `) == 0 {
			return errors.New("there is no series of west")
		}
		return nil
	})
	busy, end := context.WithCancel(t.Context())
	var streams sync.WaitGroup
	for range 60 {
		streams.Go(func() {
			for busy.Err() == nil {
				_ = stream(busy, local(ports["east-1"]), strings.Repeat("go on ", 50), func(string) {}) // it ends with busy
			}
		})
	}
	eventually(t, "no request goes to the busy cluster", func() error {
		for i := range 20 {
			if by := send(port, fmt.Sprint("short ", i)); by != "west-1" {
				return fmt.Errorf("request %d went to %q", i, by)
			}
		}
		return nil
	})
	end()
	streams.Wait()
	eventually(t, "the cluster reports that it is idle again", func() error {
		if wait := here.reportedWait("east"); wait > 0.1 {
			return fmt.Errorf("a wait of %f s", wait)
		}
		return nil
	})

	for i := range 6 {
		at := []string{"east-1", "west-1"}[i/2%2]
		before := here.knownBlocks(at)
		prompt := strings.Repeat(fmt.Sprintf("question %d for %s. ", i, at), 300)
		if by := send(ports[at], prompt); by != at {
			t.Fatalf("the gateway of %s has sent a prompt to %q", at, by)
		}
		eventually(t, "the other cluster reports the prompt", func() error {
			if now := here.knownBlocks(at); now <= before {
				return fmt.Errorf("%d blocks are known, as before", now)
			}
			return nil
		})
		if by := send(port, prompt); by != at {
			t.Errorf("a prompt that %s has cached went to %q:\n%s", at, by, here.penstock("explain", "--last", "2"))
		}
	}
}

// arrived is how many requests another cluster, "here", has chosen this one for.
func (s *site) arrived() int {
	return s.series(`penstock_selection_arrived_requests_total{member="here",pool="default/chat"} `)
}

// knownBlocks are those of prompts for the import chat that are known to have been sent to the cluster with a server.
func (s *site) knownBlocks(server string) int {
	return s.series(fmt.Sprintf(`penstock_selection_prompt_blocks{cluster=%q,import="default/chat"} `, strings.TrimSuffix(server, "-1")))
}

// reportedWait is how long a request for the import chat waits in a cluster, in seconds, by its last report.
func (s *site) reportedWait(cluster string) (seconds float64) {
	for line := range strings.Lines(s.metrics()) {
		if value, ok := strings.CutPrefix(line, fmt.Sprintf(`penstock_selection_reported_wait_seconds{cluster=%q,import="default/chat"} `, cluster)); ok {
			seconds, _ = strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return seconds
}

// series is the value of one, which is a whole number; 0 without it.
func (s *site) series(begin string) (n int) {
	for line := range strings.Lines(s.metrics()) {
		if value, ok := strings.CutPrefix(line, begin); ok {
			n, _ = strconv.Atoi(strings.TrimSpace(value))
		}
	}
	return n
}
