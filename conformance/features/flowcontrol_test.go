package features

import (
	"fmt"
	"strings"
	"testing"
)

// The server runs one request at a time. Other requests wait for their picks, by priority.
func TestFlowControl_UrgentRequestPassesThoseThatWait(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("pod", "--max-num-seqs", "1", "--time-to-first-token", "1500ms")
	s.up("flowcontrol.yaml")
	ended := make(chan string, 8)
	send := func(name string, headers ...string) {
		got, err := s.ask("/", question, headers...)
		ended <- fmt.Sprint(name, " ", got.status, " ", got.header.Get("x-penstock-reason"),
			got.header.Get("x-llm-d-request-dropped-reason"), err)
	}
	waits := func(text string) {
		t.Helper()
		s.Eventually("explain shows "+text, func() error {
			if got := s.explain(s.url("/"), "-X", "POST"); !strings.Contains(got, text) {
				return fmt.Errorf("got\n%s\nwant %s", got, text)
			}
			return nil
		})
	}
	waits("saturation 0.00") // the previous request has ended
	go send("first")
	waits("saturation 1.00")
	for i := range 3 {
		go send(fmt.Sprint("waits ", i))
	}
	waits("priority 0 wait 3 requests, of 1 fairness ID")
	go send("urgent", "x-llm-d-inference-objective", "urgent")
	waits("priority 10 wait 1 request,")
	send("too many")
	for i, want := range []string{"too many 429 queue_fullrejected-saturated", "first 200", "urgent 200", "waits",
		"waits", "waits"} {
		if got := <-ended; !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "<nil>") {
			t.Errorf("request %d to end: %s, want %s", i, got, want)
		}
	}
}
