package features

import (
	"fmt"
	"strings"
	"testing"
)

// While a remote picker is unreachable, FailOpen uses the servers that the picker named before.
// FailClose does not use them, and another cluster is tried first.
func TestFailOpen_ServersServeWhileTheRemotePickerIsGone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	open, closed, spare := s.cluster("open"), s.cluster("closed"), s.cluster("spare")
	s.up("failopen.yaml")
	send := func(path string) string {
		got, err := s.ask(path, question)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(got.status, " ", got.by(), got.header.Get("x-penstock-reason"))
	}
	for path, want := range map[string]string{"/open": "200 open", "/closed": "200 closed", "/both": "200 open"} {
		s.Eventually(path+" is served", func() error {
			got := send(path)
			return because(got == want, got)
		})
	}
	open.pickers.Stop()
	closed.pickers.Stop()
	for path, want := range map[string]string{"/open": "200 open", "/closed": "503 relay_failed",
		"/both": "200 spare"} {
		for i := range 5 {
			if got := send(path); got != want {
				t.Errorf("request %d of %s without a picker: %s, want %s", i, path, got, want)
			}
		}
	}
	spare.pickers.Stop()
	for i := range 5 { // without any picker, any server may answer
		if got := send("/both"); got != "200 open" && got != "200 spare" {
			t.Errorf(`request %d without any picker: got %s, want "200 open" or "200 spare"`, i, got)
		}
	}
	id := s.answered("/open", question).header.Get("x-request-id")
	out := s.explain("--why", id)
	if !strings.Contains(out, "its own picker names none, and it fails open: 127.0.0.1:") ||
		!strings.Contains(out, "connection refused") {
		t.Errorf(`%s, want a text with %q and a text with "connection refused"`,
			out, "its own picker names none, and it fails open: 127.0.0.1:")
	}
}
