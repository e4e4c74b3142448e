package simulation

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// HeldOut returns workloads of about n requests each, on which no strategy was tuned. Two workloads
// have the shapes of Mooncake's traces toolagent and synthetic (Qin et al., FAST 2025, table 2).
// For drawn further workloads, the parameters are drawn with the seed.
func HeldOut(n int, seed uint64, drawn int) []Source {
	all := []Source{
		made(n, 101, "toolagent", "Mooncake's toolagent by its means: 8,596 tokens in, 182 out, 59 % cached.",
			4*time.Minute, toolagent),
		made(n, 102, "synthetic", "Mooncake's synthetic by its means: 15,325 tokens in, 149 out, 66 % cached.",
			4*time.Minute, synthetic),
	}
	random := rand.New(rand.NewPCG(seed, 103))
	for i := range drawn {
		p := draw(random)
		all = append(all, made(n, random.Uint64(), fmt.Sprintf("drawn-%d-%d", seed, i+1), p.String(),
			4*time.Minute, p.draw))
	}
	return all
}

// toolagent draws agents' loops of a few calls. Each loop begins with one of a set of long tool
// descriptions.
func toolagent(d *drawing) {
	tools := d.prompts(150, func() int { return 4 + d.IntN(13) })
	popular := d.zipf(len(tools), 0.9)
	const calls = 2
	for at := d.gap(d.rate / calls); at < d.until; at += d.gap(d.rate / calls) {
		i := popular()
		s := session{start: at, contents: append(slices.Clone(tools[i]), d.fresh(1+d.IntN(4))...),
			key: uint64(len(d.w.Requests))}
		d.turns(s, 1+d.IntN(2*calls-1), 8*time.Second, func() int { return 1 + d.IntN(3) },
			func() int { return d.about(1400, .8) }, func() int { return d.about(150, .6) })
	}
}

// synthetic draws a few questions about each of many long documents.
func synthetic(d *drawing) {
	const questions = 4
	for at := d.gap(d.rate / questions); at < d.until; at += d.gap(d.rate / questions) {
		s := session{start: at, contents: d.fresh(10 + d.IntN(30)), key: uint64(len(d.w.Requests))}
		d.turns(s, 1+d.IntN(2*questions-1), 25*time.Second, func() int { return 1 },
			func() int { return d.about(500, .8) }, func() int { return d.about(124, .6) })
	}
}

// parameters describe a drawn workload of sessions, which begin with shared prefixes.
type parameters struct {
	prefixes, blocks int // shared prefixes, and mean blocks in each
	popularity       float64
	turns            int // mean requests of a session
	pause            time.Duration
	tail, output     float64 // medians, in tokens, of the prompt's last part and of the response
	burst            float64 // arrivals in every fifth minute, divided by arrivals in the other minutes
}

func draw(random *rand.Rand) parameters {
	between := func(from, to float64) float64 { return from * math.Pow(to/from, random.Float64()) }
	return parameters{
		prefixes: int(between(10, 2000)), blocks: int(between(1, 24)), popularity: 0.2 + 0.9*random.Float64(),
		turns: int(between(1, 12)), pause: time.Duration(between(4, 40) * float64(time.Second)),
		tail: between(100, 2500), output: between(60, 350), burst: between(1, 4),
	}
}

func (p parameters) String() string {
	return fmt.Sprintf("%d prefixes of %d blocks (Zipf %.2f), sessions of %d requests %s apart, %.0f tokens more, "+
		"%.0f out, bursts of %.1f", p.prefixes, p.blocks, p.popularity, p.turns, p.pause.Round(time.Second), p.tail,
		p.output, p.burst)
}

func (p parameters) draw(d *drawing) {
	prefixes := d.prompts(p.prefixes, func() int { return 1 + d.IntN(2*p.blocks) })
	popular := d.zipf(p.prefixes, p.popularity)
	usual := d.rate / float64(p.turns) * 5 / (4 + p.burst)
	for at := time.Duration(0); at < d.until; {
		rate := usual
		if at/time.Minute%5 == 4 {
			rate *= p.burst
		}
		if at += d.gap(rate); at >= d.until {
			return
		}
		i := popular()
		s := session{start: at, contents: prefixes[i], key: uint64(i)<<32 | uint64(len(d.w.Requests))}
		d.turns(s, 1+d.IntN(2*p.turns-1), p.pause, func() int { return 1 + d.IntN(2) },
			func() int { return d.about(p.tail, .8) }, func() int { return d.about(p.output, .6) })
	}
}
