package main

import (
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/penstock-project/penstock/picker/simulation"
)

type request struct {
	at            time.Duration
	input, output int // in tokens
	// blocks identify the prompt's blocks, of simulation.BlockTokens tokens each. Prompts whose
	// first blocks are equal share a prefix.
	blocks []uint64
}

type workload struct {
	name, about string
	full        float64 // full load of one server (8,000 prompt tokens a second), in requests a second
	// slow is the factor that slows servers and arrivals, so that two cores suffice for all
	// contenders.
	slow float64
	// thin divides the number of prefixes and the size of caches, so that caches fill sooner.
	thin int
	// draw returns the requests that arrive during lasts, before slow and thin are applied.
	draw func(rate float64, lasts time.Duration) ([]request, error)
}

// workloads takes the full load of one server from conformance/bench: fullLoad divided by its 8
// servers. The full load of uniform is 95 % of the rate that a server can read.
func workloads(traces string) []workload {
	generated := func(name string, full, slow float64, thin int) workload {
		w := workload{name: name, full: full, slow: slow, thin: thin}
		for _, s := range simulation.Generated(1) {
			if s.Name == name {
				w.about = s.About
			}
		}
		w.draw = func(rate float64, lasts time.Duration) ([]request, error) {
			for _, s := range simulation.Generated(int(rate * lasts.Seconds())) {
				if s.Name == name {
					return requests(s.Draw(rate, 1)), nil
				}
			}
			return nil, fmt.Errorf("no workload %s in package simulation", name)
		}
		return w
	}
	return []workload{
		generated("chat", 4.05, 2, 1),
		generated("agents", 2.76, 2, 1),
		generated("documents", 7.03, 4, 4),
		generated("bursts", 0.895, 1, 1),
		generated("rag", 1.10, 1, 1),
		{
			name: "conversation", about: "Mooncake's public trace of a chat service, its requests spread evenly.",
			full: 0.70, slow: 1, thin: 1,
			draw: func(rate float64, lasts time.Duration) ([]request, error) {
				return conversation(traces, rate, lasts)
			},
		},
		{
			name: "uniform", about: "Prompts of 2,048 tokens that share nothing, answers of 200.",
			full: 3.7, slow: 2, thin: 1, draw: uniform,
		},
	}
}

func requests(w *simulation.Workload) []request {
	out := make([]request, len(w.Requests))
	for i, r := range w.Requests {
		out[i] = request{at: r.At, input: r.Input, output: r.Output, blocks: make([]uint64, len(r.Blocks))}
		for k, b := range r.Blocks {
			out[i].blocks[k] = uint64(b)
		}
	}
	return out
}

func conversation(traces string, rate float64, lasts time.Duration) ([]request, error) {
	f, err := os.Open(filepath.Join(traces, "mooncake_conversation.jsonl.gz"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	lines, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	trace, err := simulation.ReadTrace("mooncake_conversation.jsonl", lines)
	if err != nil {
		return nil, err
	}
	n := min(int(rate*lasts.Seconds()), len(trace.Requests)-1)
	return requests(trace.Source("", "", max(n, 2), true).Draw(rate, 1)), nil
}

func uniform(rate float64, lasts time.Duration) ([]request, error) {
	random := rand.New(rand.NewPCG(1, 2))
	var all []request
	var block uint64
	for at := time.Duration(0); at < lasts; at += time.Duration(random.ExpFloat64() / rate * float64(time.Second)) {
		r := request{at: at, input: 2048, output: 200}
		for range r.input / simulation.BlockTokens {
			r.blocks = append(r.blocks, block)
			block++
		}
		all = append(all, r)
	}
	return all, nil
}

func (w *workload) plan(load float64, servers int, lasts time.Duration) ([]request, error) {
	all, err := w.draw(w.full*float64(servers)*load*float64(w.thin), time.Duration(float64(lasts)/w.slow))
	prefixes := map[uint64]int{}
	all = slices.DeleteFunc(all, func(r request) bool {
		if _, ok := prefixes[r.blocks[0]]; !ok {
			prefixes[r.blocks[0]] = len(prefixes)
		}
		return prefixes[r.blocks[0]]%w.thin != 0
	})
	for i := range all {
		all[i].at = time.Duration(float64(all[i].at) * w.slow)
	}
	return all, err
}

func (w *workload) speed() []string {
	const step = float64(20 * time.Millisecond)
	return []string{
		"--prefix-caching", "--max-num-partial-prefills", "1", "--max-num-seqs", "128",
		"--kv-cache-tokens", fmt.Sprint(768_000 / w.thin), "--prefill-rate", fmt.Sprint(8000 / w.slow),
		"--inter-token-latency", fmt.Sprint(time.Duration(step * w.slow)),
	}
}
