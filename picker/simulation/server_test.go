package simulation

import (
	"math"
	"testing"
	"time"
)

func only(server int) Strategy {
	return Strategy{Name: "only", Immediate: true, Unpaged: true, New: func(Pool) Policy { return fixed(server) }}
}

type fixed int

func (f fixed) Choose(time.Duration, *Request) Choice { return Choice{Server: int(f)} }
func (f fixed) Learn(time.Duration, Fact)             {}

// request is a request whose prompt consists of the blocks in contents. If input is not a multiple
// of BlockTokens, the last block is partial.
type request struct {
	at            time.Duration
	contents      []uint64
	input, output int
	adapter       int
	whole         bool
}

func workload(requests ...request) *Workload {
	w := &Workload{Name: "test"}
	for _, r := range requests {
		w.Requests = append(w.Requests,
			Request{At: r.at, Input: r.input, Output: r.output, Adapter: r.adapter, Whole: r.whole,
				Blocks: w.tree.prompt(nil, r.contents...)})
	}
	return w
}

func play(c ServerConfig, requests ...request) []Outcome {
	c.TokenizerRate = or(c.TokenizerRate, math.Inf(1))
	return Run(Scenario{Workload: workload(requests...), Strategy: only(0), Servers: 1, Server: c})
}

const ms = time.Millisecond

func TestServer_StepTakesThePromptAndItsSequences(t *testing.T) {
	// A chunk of 2,048 tokens at 8,000 tokens a second, a chunk of the remaining 952, and four
	// decoding steps. Each step has one sequence.
	out := play(ServerConfig{}, request{contents: []uint64{1, 2, 3, 4, 5, 6}, input: 3000, output: 5})
	first := 256*ms + 119*ms + 2*300*time.Microsecond
	if o := out[0]; o.Scheduled != 0 || o.FirstByte != first || o.End != first+4*(20*ms+300*time.Microsecond) {
		t.Errorf("%+v, want the first byte at %s", o, first)
	}
}

func TestServer_DecodingStepsEndEarlyForANewRequest(t *testing.T) {
	out := play(ServerConfig{}, request{contents: []uint64{1}, input: 100, output: 1000},
		request{at: 10 * time.Second, contents: []uint64{2}, input: 100, output: 1})
	if wait := out[1].Scheduled - 10*time.Second; wait < 0 || wait > 20300*time.Microsecond {
		t.Errorf("the second request waits for %s, want at least 0 and at most %s", wait, 20300*time.Microsecond)
	}
	if out[1].End != out[1].FirstByte || out[1].FirstByte-out[1].Scheduled != 20600*time.Microsecond {
		t.Errorf("got %+v, want an end at its first byte, 20.6ms after it was scheduled", out[1])
	}
	// 999 further tokens, of which one is in a step with two sequences.
	if want := out[0].FirstByte + 999*20300*time.Microsecond + 300*time.Microsecond; out[0].End != want {
		t.Errorf("the first one ends at %s, want %s", out[0].End, want)
	}
}

func TestServer_CachesPromptsByPrefix(t *testing.T) {
	a, b := []uint64{1, 2, 3, 4}, []uint64{1, 2, 9, 4}
	out := play(ServerConfig{},
		request{contents: a, input: 4 * BlockTokens, output: 1},
		request{at: time.Minute, contents: b, input: 4 * BlockTokens, output: 1},
		// All blocks are cached, but the last one is computed again.
		request{at: 2 * time.Minute, contents: a, input: 4 * BlockTokens, output: 1})
	if out[0].Cached != 0 || out[1].Cached != 2*BlockTokens || out[2].Cached != 3*BlockTokens {
		t.Errorf("got %+v, want 0, 2 and 3 blocks cached", out)
	}
}

func TestServer_EvictsTheLeastRecentlyUsedFromTheEndOfPrompts(t *testing.T) {
	out := play(ServerConfig{Blocks: 8},
		// Fills two blocks.
		request{contents: []uint64{1, 2, 3}, input: 3*BlockTokens - 10, output: 1},
		request{at: time.Minute, contents: []uint64{4, 5, 6, 7, 8, 9, 10}, input: 7*BlockTokens - 10, output: 1},
		request{at: 2 * time.Minute, contents: []uint64{1, 2, 3}, input: 3*BlockTokens - 10, output: 1})
	// The second request evicted block 2, after it had taken the free blocks.
	if out[2].Cached != BlockTokens {
		t.Errorf("%+v, want Cached %v", out[2], BlockTokens)
	}
}

func TestServer_PreemptsTheLastOneWhenBlocksRunOut(t *testing.T) {
	out := play(ServerConfig{Blocks: 4},
		request{contents: []uint64{1}, input: BlockTokens - 10, output: 1000},
		request{at: ms, contents: []uint64{2}, input: BlockTokens - 10, output: 1000})
	if out[0].Preempted != 0 || out[1].Preempted == 0 || out[1].End < out[0].End {
		t.Errorf("got %+v, want the second alone preempted, and ended last", out)
	}
	for i, o := range out {
		if o.End == 0 {
			t.Errorf("request %d does not end, want an end", i)
		}
	}
}

func TestServer_AdapterWaitsForASlot(t *testing.T) {
	c := ServerConfig{AdapterSlots: 1, AdapterLoad: time.Second}
	out := play(c,
		request{contents: []uint64{1}, input: 100, output: 100, adapter: 1},
		request{at: ms, contents: []uint64{2}, input: 100, output: 1, adapter: 2},
		request{at: 2 * ms, contents: []uint64{3}, input: 100, output: 1, adapter: 1},
		request{at: 3 * ms, contents: []uint64{4}, input: 100, output: 1})
	if out[0].FirstByte < time.Second {
		t.Errorf("got %+v, want a first byte after at least 1s, in which the adapter is loaded", out[0])
	}
	if out[1].Scheduled < out[0].End || out[1].FirstByte-out[1].Scheduled < time.Second {
		t.Errorf("the second adapter: got %+v, want it scheduled when the first has ended, and loaded for 1s", out[1])
	}
	if out[2].End > out[0].End || out[3].End > out[0].End {
		t.Errorf("requests behind it: got %+v, want both ended before the first", out[2:])
	}
}

func TestServer_RunsAtMostItsSequences(t *testing.T) {
	var requests []request
	for i := range 4 {
		requests = append(requests, request{contents: []uint64{uint64(i)}, input: 10, output: 50})
	}
	out := play(ServerConfig{Sequences: 2}, requests...)
	if out[2].Scheduled < out[0].End || out[3].Scheduled < out[1].End || out[1].Scheduled > out[0].End {
		t.Errorf("got %+v, want two at a time", out)
	}
}

// Like vLLM, the server sends a stream's headers before it reads the prompt, and other headers at
// the response's end.
func TestServer_StreamsBeginWithTheirHeaders(t *testing.T) {
	contents := []uint64{1, 2, 3, 4, 5, 6, 7, 8}
	out := play(ServerConfig{TokenizerRate: 100_000},
		request{contents: contents, input: 4000, output: 5},
		// This request waits for the tokenizer.
		request{at: 10 * time.Millisecond, contents: []uint64{9}, input: 100, output: 5},
		request{at: time.Minute, contents: []uint64{10, 11, 12, 13}, input: 2000, output: 5, whole: true})
	if o := out[0]; o.Headers != 40*ms || o.Scheduled != 40*ms || o.FirstByte < 500*ms {
		t.Errorf("a stream: %+v, want Headers %v, Scheduled %v, FirstByte at least %v", o, 40*ms, 40*ms, 500*ms)
	}
	if o := out[1]; o.Headers != 41*ms {
		t.Errorf("the next stream: %+v, want Headers %v", o, 41*ms)
	}
	if o := out[2]; o.Scheduled != time.Minute+20*ms || o.End < o.Scheduled+330*ms || o.Headers != o.End ||
		o.FirstByte != o.End {
		t.Errorf("an answer that is not streamed: got %+v, want headers and first byte at its end", o)
	}
}
