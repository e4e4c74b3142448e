package features

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A session stays at the cluster that served its first request, even if another cluster is faster.
// When the cluster declines, the session moves to another cluster, and stays there.
func TestAffinity_SessionStaysAtItsCluster(t *testing.T) {
	t.Parallel()
	s, clusters := newSite(t), map[string]*cluster{}
	for _, name := range []string{"east", "north", "west"} {
		clusters[name] = s.cluster(name)
	}
	s.up("affinity.yaml")
	s.answers("/far", http.StatusOK)
	at, seen := map[string]string{}, map[string]bool{}
	s.Eventually("sessions are at several clusters", func() error {
		id := fmt.Sprint("user-", len(at))
		at[id] = s.served("/far", "x-session-id", id)
		seen[at[id]] = true
		return because(len(seen) >= 2 && len(at) >= 10, "sessions at ", seen)
	})
	late := at["user-0"]
	first := s.answered("/far", question)
	token, by := first.header.Get("x-session-token"), first.by()
	if !strings.HasSuffix(token, ".at-"+by) || strings.Count(token, by) != 1 ||
		len(first.header.Values("x-session-token")) != 1 {
		t.Errorf("the token of a session at %s: got %q, want one that ends in .at- and this name", by,
			first.header.Values("x-session-token"))
	}
	clusters[late].set(slow(300 * time.Millisecond))
	for id, by := range at {
		for _, headers := range [][]string{{"x-session-id", id}, {"cookie", "session-id=other; sid=" + id}} {
			if again := s.served("/far", headers...); again != by {
				t.Errorf("session %s moved from %s to %s:\n%s", id, by, again, s.explain("--last", "2"))
			}
		}
	}
	tokenLeads(t, s, clusters[by], token)
	s.served("/far", "x-session-id", "user-0")
	if text := s.explain("--last", "2"); !strings.Contains(text, "; the session is there") {
		t.Errorf("explain: got\n%s\nwant that the session decided", text)
	}
	s.Eventually("requests without a session leave the slow cluster", func() error {
		by := s.served("/far")
		return because(by != late, by, " serves")
	})

	clusters[late].set(func(c *cluster) { full(c); c.down = true })
	if late == "west" {
		clusters[late].server.Close()
	}
	next := s.served("/far", "x-session-id", "user-0")
	if next == late {
		t.Fatalf("%s serves, want the other cluster: this one declines", late)
	}
	clusters[late].reset()
	s.Eventually("the access log shows who has served", func() error {
		barred := s.series(fmt.Sprintf(`penstock_selection_barred{cluster=%q,import="default/far"}`, late))
		return because(barred == 1, late, " is not barred")
	})
	for range 10 {
		if by := s.served("/far", "x-session-id", "user-0"); by != next {
			t.Errorf("the session moved on from %s to %s:\n%s", next, by, s.explain("--last", "2"))
		}
	}
}

// tokenLeads makes a cluster slow. Requests with the cluster's session token must still go there,
// and its picker must receive the token that it issued.
func tokenLeads(t *testing.T, s *site, c *cluster, token string) {
	t.Helper()
	c.set(slow(300 * time.Millisecond))
	s.Eventually("requests without a session leave the cluster of the token", func() error {
		by := s.served("/far")
		return because(by != c.name, by, " serves")
	})
	for range 5 {
		if again := s.served("/far", "x-session-token", token); again != c.name {
			t.Errorf("the token's session moved from %s to %s", c.name, again)
		}
		c.mu.Lock()
		if got := c.token; got != "at-"+c.name {
			t.Errorf("the token that the picker of %s gets: got %q, want %q", c.name, got, "at-"+c.name)
		}
		c.mu.Unlock()
	}
	for _, forged := range []string{
		c.name + ".", "at-" + c.name, "envoy://hops/hop.default.import.far@" + c.name, strings.Repeat("A", 22) + ".x",
	} {
		if other := s.served("/far", "x-session-token", forged); other == c.name {
			t.Errorf("the text %q leads to %s, want the other cluster: this one is slow", forged, c.name)
		}
	}
}
