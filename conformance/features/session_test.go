package features

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A session has an ID, a cookie or a response's token. When its server leaves the pool, the session
// moves to another server and stays there.
func TestSession_StaysAtItsServerWhileThatServes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, name := range []string{"pod-1", "pod-2", "pod-3"} {
		s.server(name)
	}
	s.up("session.yaml")
	at, seen := map[string]string{}, map[string]bool{}
	s.Eventually("sessions are at several servers", func() error {
		id := fmt.Sprint("user-", len(at))
		at[id] = s.served("/", "x-session-id", id)
		if seen[at[id]] = true; len(seen) < 2 {
			return fmt.Errorf("sessions at %v, want at least 2 servers", seen)
		}
		return nil
	})
	for id, by := range at {
		token := s.answered("/", question, "x-session-id", id).header.Get("x-session-token")
		if token == "" {
			t.Errorf("session %s has no token", id)
		}
		for _, headers := range [][]string{
			{"x-session-id", id},
			{"cookie", "session-id=other; sid=" + id},
			{"x-session-token", token},
			{"x-session-token", token, "x-session-id", "another"},
		} {
			if again := s.served("/", headers...); again != by {
				t.Errorf("session %s went from %s to %s, want the same server:\n%s", id, by, again,
					s.explain("--last", "1"))
			}
		}
	}
	first, err := s.ask("/", question)
	if err != nil || first.status != http.StatusOK {
		t.Fatalf("%d %v, want %d", first.status, err, http.StatusOK)
	}
	token := first.header.Get("x-session-token")
	for range 5 {
		if again := s.served("/", "x-session-token", token); again != first.by() {
			t.Errorf("the token's session went to %s, want %s", again, first.by())
		}
	}
	gone := at["user-0"]
	s.write("session.yaml", swap("  - {address: 127.0.0.1, ports: [${"+gone+"}]}\n", ""))
	var next string
	s.Eventually("the session leaves a server that has left the pool", func() error {
		if next = s.served("/", "x-session-id", "user-0"); next == gone {
			return fmt.Errorf("%s serves, want another server", next)
		}
		return nil
	})
	for range 5 {
		if again := s.served("/", "x-session-id", "user-0"); again != next {
			t.Errorf("the session went on from %s to %s, want the same server", next, again)
		}
	}
	if text := s.explain("--last", "1"); !strings.Contains(text, "kept at its endpoint, by header x-session-id") {
		t.Errorf("explain: got\n%s\nwant that the session decided", text)
	}
}
