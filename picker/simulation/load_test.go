package simulation

import (
	"slices"
	"testing"
	"time"
)

func p90(drawings [][]time.Duration) time.Duration {
	all := slices.Concat(drawings...)
	slices.Sort(all)
	return quantile(all, .9)
}

// "load" beats round robin, which sends short prompts behind long ones.
func TestStrategy_LoadBeatsRoundRobinWithMixedPrompts(t *testing.T) {
	const n = 3
	source := generated(t, "rag", 1500)
	play := func(s Scenario) time.Duration {
		total := time.Duration(0)
		for _, s := range Play(Drawings(s, source, 6, n)) {
			total += s.TTFT90
		}
		return total / n
	}
	reference := play(Scenario{Strategy: named(t, "round-robin")})
	load := named(t, "load")
	immediate := load
	immediate.Immediate = true
	for _, tt := range []struct {
		name string
		s    Scenario
	}{
		{"first bytes reported at once", Scenario{Strategy: immediate}},
		{"first bytes reported late", Scenario{Strategy: load}},
		{"pages gone", Scenario{Strategy: load, Pages: Pages{Gone: true}}},
		{"a second picker that shares nothing", Scenario{Strategy: load, Pickers: 2, Publish: -1}},
		{
			"the same, and pages that take 1 s", Scenario{
				Strategy: load, Pickers: 2, Publish: -1, Pages: Pages{Takes: time.Second},
			},
		},
		{"the same, pages gone", Scenario{Strategy: load, Pickers: 2, Publish: -1, Pages: Pages{Gone: true}}},
	} {
		got := play(tt.s)
		t.Logf("%s: %s, round robin %s", tt.name, got, reference)
		if got > reference*8/10 {
			t.Errorf("%s: TTFT p90 %s, of round robin %s, want at most %s", tt.name, got, reference, reference*8/10)
		}
	}
}

// Two pickers without pages load an adapter at the same servers. Otherwise servers have more
// adapters than slots, and the time to the first token is ten times as long.
func TestStrategy_LoadKeepsAdaptersApartWithoutPages(t *testing.T) {
	const n = 3
	play := func(s Scenario) (total time.Duration) {
		for _, s := range Play(Drawings(s, generated(t, "lora", 2000), 9.9, n)) { // 70 % load
			total += s.TTFT90 / n
		}
		return total
	}
	load := named(t, "load")
	reference := play(Scenario{Strategy: load})
	got := play(Scenario{Strategy: load, Pickers: 2, Publish: -1, Pages: Pages{Gone: true}})
	t.Logf("TTFT p90 %s, of one picker with pages %s", got, reference)
	if got > 3*reference {
		t.Errorf("TTFT p90 %s, of one picker with pages %s, want at most %s", got, reference, 3*reference)
	}
}

// All caches together have room for one copy of each document. If requests avoid a server that
// seems slow, or copy documents, other documents must be read again.
func TestStrategy_LoadLeavesDocumentsWhereTheyAre(t *testing.T) {
	const n = 3
	play := func(strategy string) (ttft time.Duration, hits float64) {
		s := Scenario{Strategy: named(t, strategy), Servers: 4, Server: ServerConfig{Blocks: 750}}
		for _, s := range Play(Drawings(s, generated(t, "documents", 6000), 14, n)) { // 70 % load
			ttft, hits = ttft+s.TTFT90/n, hits+s.Hits/n
		}
		return ttft, hits
	}
	ttft, hits := play("load")
	best, bestHits := play("llm-d")
	t.Logf("TTFT p90 %s, %.3f of the prompts cached; llm-d %s, %.3f", ttft, hits, best, bestHits)
	if ttft > 2*best || hits < bestHits-0.02 {
		t.Errorf("TTFT p90 %s, %.3f of the prompts cached; llm-d %s, %.3f, want at most %s and at least %.3f",
			ttft, hits, best, bestHits, 2*best, bestHits-0.02)
	}
}

// Servers with many responses cost more for a long prompt, which delays these responses.
func TestStrategy_LoadEndsResponsesAsSoonAsRivals(t *testing.T) {
	const n = 5
	for name, rate := range map[string]float64{"rag": 4.4, "bursts": 3.6} { // 50 % load
		end := func(strategy string) time.Duration {
			total := time.Duration(0)
			for _, s := range Play(Drawings(Scenario{Strategy: named(t, strategy)}, generated(t, name, 4000), rate,
				n)) {
				total += s.EndToEnd
			}
			return total / n
		}
		got, best := end("load"), min(end("llm-d"), end("dynamo"))
		t.Logf("%s: mean time to the end %s, best rival %s", name, got, best)
		if got > best*101/100 {
			t.Errorf("%s: mean time to the end %s, best rival %s, want at most %s", name, got, best, best*101/100)
		}
	}
}

func TestStrategy_LoadGivesJoiningServerItsShare(t *testing.T) {
	const drawings = 6
	for name, rate := range map[string]float64{"chat": 14.6, "rag": 4, "bursts": 3.2} { // 45 % load
		var joined, steady [drawings][]time.Duration
		var first, all [drawings]int
		Each(drawings, func(i int) {
			s := Scenario{Strategy: named(t, "load"), Workload: generated(t, name, 1500).Draw(rate, i+1),
				Seed: uint64(i + 1)}
			at := 3 * s.Workload.Warm()
			steady[i] = ttfts(s.Workload, Run(s), at, at+10*time.Second)
			s.JoinAt = at
			outcomes := Run(s)
			joined[i] = ttfts(s.Workload, outcomes, at, at+10*time.Second)
			for k, o := range outcomes {
				if since := s.Workload.Requests[k].At - at; since >= 0 && since < time.Second {
					if all[i]++; o.Server == 7 {
						first[i]++
					}
				}
			}
		})
		if after, before := p90(joined[:]), p90(steady[:]); after > 2*before {
			t.Errorf("%s: TTFT p90 %s in the 10 s after a server has joined, %s if it was there before; want at "+
				"most twice that", name, after, before)
		}
		picks, total := 0, 0
		for i := range all {
			picks, total = picks+first[i], total+all[i]
		}
		t.Logf("%s: %d of %d picks of the first second", name, picks, total)
		if 2*picks > total {
			t.Errorf("%s: the new server gets %d of the first second's %d picks, want at most half", name, picks, total)
		}
	}
}

// All caches together have room for about one copy of each document. An evicted document returns to
// its former server. Elsewhere it would evict another document, which would then also move.
func TestStrategy_LoadReadsDocumentsAgainWhereTheyWere(t *testing.T) {
	const n = 3
	play := func(strategy string) (ttft time.Duration) {
		s := Scenario{Strategy: named(t, strategy), Server: ServerConfig{Blocks: 400}}
		for _, s := range Play(Drawings(s, generated(t, "documents", 6000), 16.6, n)) { // 50 % load
			ttft += s.TTFT90 / n
		}
		return ttft
	}
	ttft, sglang := play("load"), play("sglang")
	t.Logf("TTFT p90 %s, SGLang's %s", ttft, sglang)
	if ttft > sglang*3/2 {
		t.Errorf("TTFT p90 %s, SGLang's %s, want at most %s", ttft, sglang, sglang*3/2)
	}
}

func ttfts(w *Workload, outcomes []Outcome, from, until time.Duration) []time.Duration {
	var times []time.Duration
	for i := range outcomes {
		if r := &w.Requests[i]; r.At >= from && r.At < until && outcomes[i].Server >= 0 && !r.Whole {
			times = append(times, outcomes[i].FirstByte-r.At)
		}
	}
	return times
}
