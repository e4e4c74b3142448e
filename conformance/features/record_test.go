package features

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/picker/recording"
)

func TestRecord_TraceOfRequestsIsReplayed(t *testing.T) {
	t.Parallel()
	s, trace := newSite(t), filepath.Join(t.TempDir(), "trace.jsonl")
	s.server("pod-1")
	s.server("pod-2")
	s.flags = []string{"--record", trace}
	s.up("record.yaml")
	s.answers("/", http.StatusOK)
	for range 2 {
		for i := range 3 {
			s.answered("/", conversation(i))
		}
	}
	var all []recording.Line
	s.Eventually("all requests are recorded", func() error {
		raw, err := os.ReadFile(trace)
		if err != nil {
			return err
		}
		all = nil
		for text := range strings.Lines(string(raw)) {
			var l recording.Line
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				return err
			}
			if l.InputLength > 1000 {
				all = append(all, l)
			}
		}
		if strings.Contains(string(raw), "word-") || strings.Contains(string(raw), "conversation") {
			t.Error("the trace has a prompt")
		}
		return because(len(all) == 6, len(all), " lines")
	})
	// Lines have the order in which Envoy reports the requests' ends.
	first := map[int64]int{}
	for _, l := range all {
		if len(l.HashIDs) != (l.InputLength+511)/512 || l.OutputLength != 1 || l.Status != 200 || l.Server == "" ||
			l.Pool != "default/chat" ||
			l.Model != "llama" || l.Bytes == 0 || l.Request == "" || l.TTFT != 0 || l.Headers <= 0 || l.Took <= 0 {
			t.Errorf("got the line %+v, want one hash per 512 tokens, status 200, default/chat, llama, one token, "+
				"and no TTFT", l)
		}
		first[l.HashIDs[0]]++
		if n := first[l.HashIDs[0]]; (n == 2) != (l.Cached > 1000) {
			t.Errorf("the %d. request of a conversation has %d tokens cached, want over 1000 in the second alone: %+v",
				n, l.Cached, l)
		}
	}
	if len(first) != 3 {
		t.Errorf("%d conversations by their first blocks, want 3", len(first))
	}
	out, err := exec.CommandContext(t.Context(), binary, "replay", trace, "--strategy", "load", "--pool",
		"default/chat").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "7 requests") {
		t.Errorf("replay: got %v\n%s\nwant 7 requests", err, out)
	}
}
