package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The requests of a session stay at the cluster that has served its first one, though another is better, until that declines; then they
// stay at another. A client names neither by what it sends.
func TestAffinity_SessionStaysAtItsCluster(t *testing.T) {
	t.Parallel()
	clusters, entries := map[string]*exportingCluster{}, ""
	for _, name := range []string{"east", "north", "west"} {
		clusters[name] = newExportingCluster(t, name)
	}
	entries = clusters["east"].entry("EndpointMode", 1) + clusters["north"].entry("EndpointMode", 1) + clusters["west"].entry("ParentMode", 1)
	port := freePort(t)
	policy := strings.Replace(fmt.Sprintf(leastLoad, "far"), "policy: LeastLoad", "policy: Latency, affinity: Session", 1) + "  picker: {session: {cookieName: sid}}\n"
	s := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "policy.yaml": policy,
		"far.yaml":    routeYAML("far", "/far", "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far}"),
		"import.yaml": "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: far}\nstatus:\n  clusters:\n" + entries,
	})
	answers(t, local(port)+"/far", http.StatusOK)
	send := func(headers ...string) string {
		t.Helper()
		got := ask(t, local(port)+"/far", question, headers...)
		if got.status != http.StatusOK {
			t.Fatalf("%d %s", got.status, got.body)
		}
		return got.header.Get("x-served-by")
	}
	// Each session begins at the cluster that is best then.
	at, seen := map[string]string{}, map[string]bool{}
	eventually(t, "sessions are at several clusters", func() error {
		id := fmt.Sprint("user-", len(at))
		at[id] = send("x-session-id", id)
		if seen[at[id]] = true; len(seen) < 2 || len(at) < 10 {
			return fmt.Errorf("sessions at %v", seen)
		}
		return nil
	})
	slow := at["user-0"]
	first := ask(t, local(port)+"/far", question)
	token, by := first.header.Get("x-session-token"), first.header.Get("x-served-by")
	if !strings.HasSuffix(token, ".at-"+by) || strings.Count(token, by) != 1 || len(first.header.Values("x-session-token")) != 1 {
		t.Errorf("the token of a session at %s is %q", by, first.header.Values("x-session-token"))
	}
	clusters[slow].set(func(c *exportingCluster) { c.delay = 300 * time.Millisecond })
	for id, by := range at {
		for _, headers := range [][]string{{"x-session-id", id}, {"cookie", "session-id=other; sid=" + id}} {
			if again := send(headers...); again != by {
				t.Errorf("session %s moved from %s to %s:\n%s", id, by, again, s.penstock("explain", "--last", "2"))
			}
		}
	}
	clusters[by].set(func(c *exportingCluster) { c.delay = 300 * time.Millisecond })
	eventually(t, "requests without a session leave the cluster of the token", func() error {
		if other := send(); other == by {
			return fmt.Errorf("%s serves", by)
		}
		return nil
	})
	for range 5 {
		if again := send("x-session-token", token); again != by {
			t.Errorf("the token's session moved from %s to %s", by, again)
		}
		clusters[by].mu.Lock()
		if got := clusters[by].token; got != "at-"+by {
			t.Errorf("the picker of %s gets the token %q, and has sent %q", by, got, "at-"+by)
		}
		clusters[by].mu.Unlock()
	}
	for _, forged := range []string{by + ".", "at-" + by, "envoy://hops/hop.default.import.far@" + by, strings.Repeat("A", 22) + ".x"} {
		if other := send("x-session-token", forged); other == by {
			t.Errorf("the text %q leads to %s, which is slow", forged, by)
		}
	}
	send("x-session-id", "user-0")
	if text := s.penstock("explain", "--last", "2"); !strings.Contains(text, "; the session is there") {
		t.Errorf("explain does not show that the session decided:\n%s", text)
	}
	eventually(t, "requests without a session leave the slow cluster", func() error {
		if by := send(); by == slow {
			return fmt.Errorf("%s serves", by)
		}
		return nil
	})

	// One that declines loses its sessions to others, where they stay.
	clusters[slow].set(func(c *exportingCluster) { c.declines, c.down = http.StatusTooManyRequests, true })
	if slow == "west" {
		clusters[slow].server.Close()
	}
	next := send("x-session-id", "user-0")
	if next == slow {
		t.Fatalf("%s serves, which declines", slow)
	}
	clusters[slow].set(func(*exportingCluster) {})
	eventually(t, "the access log shows who has served", func() error {
		if s.series(fmt.Sprintf(`penstock_selection_barred{cluster=%q,import="default/far"} `, slow)) != 1 {
			return fmt.Errorf("%s is not barred", slow)
		}
		return nil
	})
	for range 10 {
		if by := send("x-session-id", "user-0"); by != next {
			t.Errorf("the session moved on from %s to %s:\n%s", next, by, s.penstock("explain", "--last", "2"))
		}
	}
}
