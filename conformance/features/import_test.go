package features

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Only requests that a cluster declines go to another cluster. A server's own answer is final.
func TestImport_DeclinedRequestIsServedByAnotherCluster(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	east, north, west := s.cluster("east"), s.cluster("north"), s.cluster("west")
	all := []*cluster{east, north, west}
	s.up("import.yaml", with("declines"))
	s.answers("/far", http.StatusOK)
	body := strings.Replace(question, "repeat this", strings.Repeat("repeat this ", 20000), 1)
	down := func(c *cluster) { c.down = true }
	answers := func(status int, marks bool) func(*cluster) {
		return func(c *cluster) { c.status, c.marks = status, marks }
	}
	unavailable := func(c *cluster) { c.declines = http.StatusServiceUnavailable }
	for _, test := range []struct {
		name              string
		east, north, west func(*cluster)
		want              string
	}{
		{name: "all serve by their weights", want: "200 east 20, 200 north 10, 200 west 10"},
		{name: "a picker declines", east: full, want: "200 north 20, 200 west 20"},
		{name: "another declines too", east: full, north: unavailable, want: "200 west 40"},
		{name: "a picker names a server that is down", east: down, want: "200 north 20, 200 west 20"},
		{name: "a server's own answer is final", north: answers(503, false),
			want: "200 east 20, 200 west 10, 503 north 10"},
		{name: "a gateway's own answer is final", west: answers(429, false),
			want: "200 east 20, 200 north 10, 429 west 10"},
		{name: "a server that marks its answer is not believed", north: answers(503, true),
			want: "200 east 20, 200 west 10, 503 north 10"},
		{name: "a gateway that marks its answer is not believed", west: answers(503, true),
			want: "200 east 20, 200 north 10, 503 west 10"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for i, change := range []func(*cluster){test.east, test.north, test.west} {
				if all[i].reset(); change != nil {
					all[i].set(change)
				}
			}
			counts := fmt.Sprint(s.statuses(t, body, 40))
			if got := strings.Trim(strings.NewReplacer(":", " ", "map[", "", "]", "").Replace(counts),
				" "); got != strings.ReplaceAll(test.want, ",", "") {
				t.Errorf("answers: %s, want %s", got, test.want)
			}
			for _, c := range all {
				if asked, served := c.counts(); asked > 40 || served > 40 {
					t.Errorf("%s was asked for picks %d times and for answers %d times, want at most 40", c.name, asked,
						served)
				}
				if c.served > 0 && (c.host != "models.example.com" || c.size != len(body)) {
					t.Errorf("%s got host %q and %d bytes, want models.example.com and %d", c.name, c.host, c.size,
						len(body))
				}
			}
		})
	}
	t.Run("all decline", func(t *testing.T) {
		west.server.Close()
		for range 20 {
			for _, c := range all {
				c.set(full)
			}
			got, err := s.ask("/far", question)
			if err != nil {
				t.Fatal(err)
			}
			asked, _ := east.counts()
			other, _ := north.counts()
			if asked != 1 || other != 1 || got.status != http.StatusTooManyRequests &&
				got.status != http.StatusServiceUnavailable {
				t.Fatalf("east's picker was asked %d times, north's %d times, want 1 each, and 429 or 503: %d %s",
					asked, other, got.status, got.body)
			}
		}
	})
	if text := s.explain(s.url("/far")); !strings.Contains(text, "another exporting cluster, when one declines") {
		t.Errorf(`explain: %s, want a text with "another exporting cluster, when one declines"`, text)
	}
}

func (s *site) statuses(t *testing.T, body string, requests int) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for range requests {
		req, err := request(t.Context(), s.url("/far"), body)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "models.example.com"
		got, err := do(client(), req)
		if err != nil {
			t.Fatal(err)
		}
		by := got.by()
		if by == "" {
			by = got.body
		}
		counts[fmt.Sprintf("%d %s", got.status, by)]++
		if mark := got.header.Get("penstock-peer-refused"); mark != "" {
			t.Errorf("the client sees penstock-peer-refused: %s, want none", mark)
		}
	}
	return counts
}

func TestImport_ChangedClustersLoseNoRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	east, north, west := s.cluster("east"), s.cluster("north"), s.cluster("west")
	s.up("import.yaml", with("change-0"))
	s.answers("/far", http.StatusOK)
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop()
	var sent, change atomic.Int64
	for range 4 {
		clients.Go(func() {
			for ctx.Err() == nil {
				got, err := s.ask("/far", question)
				if sent.Add(1); err != nil || got.status != http.StatusOK {
					t.Errorf("change %d: got %d %s %v %v, want 200", change.Load(), got.status, got.body, got.header,
						err)
					return
				}
			}
		})
	}
	for i, serve := range [][]*cluster{
		{east, north}, {east, north, west}, {north, west}, {west}, {east, west}, {east, west}, {east}, {north, west},
	} {
		change.Store(int64(i + 1))
		s.write("import.yaml", with(fmt.Sprint("change-", i+1)))
		for round := range 2 { // the second round begins after the change
			for _, c := range []*cluster{east, north, west} {
				c.reset()
			}
			for _, c := range serve {
				s.Eventually(fmt.Sprintf("change %d, round %d: %s serves", i+1, round, c.name), func() error {
					_, n := c.counts()
					return because(n > 0 || t.Failed(), "it does not")
				})
			}
		}
	}
	t.Logf("%d requests", sent.Load())
}

func TestImport_SpillsOnceAllClustersDecline(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	east, west := s.cluster("east"), s.cluster("west")
	s.server("here-1")
	s.up("import.yaml", with("spills"))
	for by, declines := range map[string][]*cluster{"east": {west}, "west": {east}, "here-1": {east, west}} {
		east.reset()
		west.reset()
		for _, c := range declines {
			c.set(full)
		}
		s.answers("/far", http.StatusOK)
		for range 10 {
			if got := s.served("/far"); got != by {
				t.Errorf("served by %s, want %s", got, by)
			}
		}
	}
}

// If a cluster's picker does not answer, another cluster serves. If no picker answers, the failure
// mode applies.
func TestImport_FailsOpenOnceNoClusterPicks(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	east, west := s.cluster("east"), s.cluster("west")
	s.up("import.yaml", with("open"))
	s.answers("/far", http.StatusOK)
	served := func(want ...string) {
		t.Helper()
		got := map[string]bool{}
		for range 10 {
			got[s.served("/far")] = true
		}
		if len(got) != len(want) || !got[want[0]] {
			t.Errorf("%v serve, want %v", got, want)
		}
	}
	served("east", "west")
	east.pickers.Stop()
	served("west")
	west.pickers.Stop()
	// Until Envoy's health check fails, a picker that reads bodies as a stream cannot be skipped.
	// Each of Envoy's workers detects the failure on its own, so one answer is no proof.
	s.Eventually("ten requests in a row are answered", func() error {
		for range 10 {
			if got, err := s.ask("/far", question); err != nil || got.status != http.StatusOK {
				return fmt.Errorf("got %d %s %w, want 200", got.status, got.body, err)
			}
		}
		return nil
	})
	served("east", "west")
}

// One change replaces the only cluster of an import, whose pods are not declared.
func TestImport_ReplacedClusterLosesNoRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.cluster("one")
	s.cluster("two")
	s.up("import.yaml", with("one"))
	s.answers("/far", http.StatusOK)
	requests := s.traffic("/far")
	for i := range 20 {
		name := []string{"two", "one"}[i%2]
		s.write("import.yaml", with(name))
		s.Eventually(fmt.Sprintf("change %d: %s serves", i, name), func() error {
			by := s.served("/far")
			return because(by == name, by, " does")
		})
	}
	requests.end(0)
}
