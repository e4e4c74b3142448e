package simulation

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

// conversation returns the beginning of a public trace: Mooncake, FAST'25,
// conversation_trace.jsonl, Apache-2.0.
func conversation(t *testing.T) *Workload {
	t.Helper()
	f, err := os.Open("testdata/conversation.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := ReadTrace(f.Name(), f)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestTrace_EqualHashesAreSharedPrefixes(t *testing.T) {
	w := conversation(t)
	if len(w.Requests) != 120 || w.Requests[0].At != 0 || w.Requests[0].Input != 6758 || w.Requests[0].Output != 500 {
		t.Fatalf("%d requests, %+v, want 120, At 0, Input 6758, Output 500", len(w.Requests), w.Requests[0])
	}
	a, b := w.Requests[0], w.Requests[1]
	if len(a.Blocks) != 14 || len(a.full()) != 13 || a.Blocks[0] != b.Blocks[0] || a.Blocks[1] == b.Blocks[1] {
		t.Errorf("blocks %v and %v, want 14 in the first, 13 of them full, and the first block alone shared",
			a.Blocks, b.Blocks)
	}
}

func TestTrace_BadLinesAreNamed(t *testing.T) {
	_, err := ReadTrace("a.jsonl", strings.NewReader(`{"timestamp": 0, "input_length": 10, "output_length": 1}

{"timestamp": 1
{"timestamp": -1, "input_length": 10, "output_length": 1}
{"input_length": 10, "output_length": 1}
{"timestamp": 1, "input_length": 0, "output_length": 1}
{"timestamp": 1, "input_length": 1}
{"timestamp": 1, "input_length": 600, "output_length": 1, "hash_ids": [1]}
`))
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	for i, want := range []string{"a.jsonl:3: not a request", "a.jsonl:4: timestamp", "a.jsonl:5: timestamp",
		"a.jsonl:6: input_length", "a.jsonl:7: output_length",
		"a.jsonl:8: hash_ids has 1 entries; 600 tokens have 2 blocks of 512"} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Errorf("want %q in:\n%v", want, err)
		}
	}
	if _, err := ReadTrace("a.jsonl", strings.NewReader("\n")); err == nil ||
		err.Error() != "a.jsonl: the trace has no requests" {
		t.Error(err)
	}
	if _, err := ReadTrace("a.jsonl", strings.NewReader(strings.Repeat("x\n", 100))); err == nil ||
		strings.Count(err.Error(), "\n") != maxProblems {
		t.Error(err)
	}
}

func TestTrace_SpreadKeepsRequestsBetweenTheirTimestamps(t *testing.T) {
	w := conversation(t)
	spread := w.Spread(rand.New(rand.NewPCG(1, 2)))
	moved := 0
	for i, r := range spread.Requests {
		original := w.Requests[i].At
		if r.At < original || r.At >= original+3001*time.Millisecond || i > 0 && r.At < spread.Requests[i-1].At {
			t.Errorf("request %d of %s comes at %s, want it within 3001ms, and in order", i, original, r.At)
		}
		if r.At != original {
			moved++
		}
	}
	if moved < 100 {
		t.Errorf("%d requests moved, want at least 100", moved)
	}
}

func TestTrace_SourceHasTheRateAskedFor(t *testing.T) {
	s := conversation(t).Source("conversation", "", 60, true)
	for i := range 6 {
		w := s.Draw(7, i+1)
		if rate := w.Rate(); rate < 6.9 || rate > 7.1 || len(w.Requests) != 60 {
			t.Errorf("drawing %d: %d requests at %g, want at least 6.9, at most 7.1, 60", i+1, len(w.Requests), rate)
		}
	}
}

func FuzzTrace_ReadsOrNamesTheLine(f *testing.F) {
	f.Add([]byte(`{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [1, 2], "model": "m"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := ReadTrace("f", strings.NewReader(string(data)))
		if err != nil {
			return
		}
		for i, r := range w.Requests {
			if r.Input < 1 || r.Output < 1 || r.At < 0 || len(r.Blocks) != (r.Input+BlockTokens-1)/BlockTokens ||
				i > 0 && r.At < w.Requests[i-1].At {
				t.Errorf("got %+v, want input, output and blocks that fit, in order", r)
			}
		}
	})
}
