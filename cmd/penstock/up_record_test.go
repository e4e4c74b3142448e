package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
	"github.com/penstock-project/penstock/picker/recording"
)

// What --record writes, penstock replay reads.
func TestRecord_TraceOfRequestsIsReplayed(t *testing.T) {
	t.Parallel()
	port, trace := freePort(t), filepath.Join(t.TempDir(), "trace.jsonl")
	up(t, chatFiles(port, modelServer(t, sim.Config{Name: "pod-1"}), modelServer(t, sim.Config{Name: "pod-2"})), "--record", trace)
	c := &conversations{url: local(port), last: make([]string, 3)}
	answers(t, local(port), 200)
	for range 2 {
		for i := range c.last {
			c.ask(t, i)
		}
	}
	var all []recording.Line
	eventually(t, "all requests are recorded", func() error {
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
		if len(all) != 6 {
			return fmt.Errorf("%d lines", len(all))
		}
		return nil
	})
	// Lines are in the order of ends, which Envoy reports in that of its workers.
	first := map[int64]int{}
	for _, l := range all {
		if len(l.HashIDs) != (l.InputLength+511)/512 || l.OutputLength != 1 || l.Status != 200 || l.Server == "" || l.Pool != "default/chat" || l.Model != "llama" || l.Bytes == 0 || l.Request == "" || l.TTFT != 0 || l.Headers <= 0 || l.Took <= 0 {
			t.Errorf("%+v", l)
		}
		first[l.HashIDs[0]]++
		if n := first[l.HashIDs[0]]; (n == 2) != (l.Cached > 1000) {
			t.Errorf("the %d. request of a conversation has %d tokens cached: %+v", n, l.Cached, l)
		}
	}
	if len(first) != 3 {
		t.Errorf("%d conversations by their first blocks, want 3", len(first))
	}
	if out, err := replayed(t, "", trace, "--strategy", "load", "--pool", "default/chat"); err != nil || !strings.Contains(out, "7 requests") {
		t.Errorf("%v\n%s", err, out)
	}
}
