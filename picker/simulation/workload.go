package simulation

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Source draws workloads.
type Source struct {
	Name, About string
	// Draw returns the workload with number i (from 1). rate is the mean number of requests a
	// second. Equal arguments give equal requests.
	Draw func(rate float64, i int) *Workload
}

// Generated returns artificial workloads of about n requests each.
func Generated(n int) []Source {
	generated := func(name, about string, warm time.Duration, draw func(*drawing)) Source {
		return made(n, uint64(len(name)), name, about, warm, draw)
	}
	return []Source{
		generated("chat", "Sessions of some turns, with shared system prompts.", time.Minute, chat),
		generated("rag", "Questions about documents, of which some are popular.", 0, rag),
		generated("documents", "Short questions about documents, of which each server has room for half.", 0,
			documents),
		generated("lora", "Requests to 24 adapters, each with a system prompt.", 0, lora),
		generated("bursts", "Long prompts that share little, five times as many in bursts of some seconds.", 0, bursts),
		generated("agents",
			"Loops of tool calls, each of which sends all of its loop so far. Calls do not wait for answers.",
			4*time.Minute, agents),
	}
}

func made(n int, stream uint64, name, about string, warm time.Duration, draw func(*drawing)) Source {
	return Source{name, about, func(rate float64, i int) *Workload {
		w := &Workload{Name: name}
		d := &drawing{Rand: rand.New(rand.NewPCG(uint64(i), stream)), w: w, rate: rate}
		d.until = warm + time.Duration(float64(n)/rate*float64(time.Second))
		draw(d)
		w.begin(warm, d.until)
		return w
	}}
}

// begin keeps the requests that arrive in [from, until), with times relative to from. So the
// workload begins with sessions at all stages.
func (w *Workload) begin(from, until time.Duration) {
	slices.SortStableFunc(w.Requests, byArrival)
	kept := w.Requests[:0]
	for _, r := range w.Requests {
		if r.At >= from && r.At < until {
			r.At -= from
			kept = append(kept, r)
		}
	}
	w.Requests = kept
}

type drawing struct {
	*rand.Rand
	w       *Workload
	rate    float64
	until   time.Duration
	content uint64
}

func (d *drawing) fresh(blocks int) []uint64 {
	contents := make([]uint64, blocks)
	for i := range contents {
		d.content++
		contents[i] = d.content
	}
	return contents
}

func (d *drawing) about(median, sigma float64) int {
	return int(min(max(1, median*math.Exp(sigma*d.NormFloat64())), 60_000))
}

func (d *drawing) gap(rate float64) time.Duration {
	return time.Duration(d.ExpFloat64() / rate * float64(time.Second))
}

// zipf returns a function that draws a number from 0 to n-1, with weights (number+1)^-s.
func (d *drawing) zipf(n int, s float64) func() int {
	sums := make([]float64, n)
	sum := 0.0
	for i := range sums {
		sum += math.Pow(float64(i+1), -s)
		sums[i] = sum
	}
	return func() int {
		i, _ := slices.BinarySearch(sums, d.Float64()*sum)
		return min(i, n-1)
	}
}

func (d *drawing) prompts(n int, blocks func() int) [][]uint64 {
	all := make([][]uint64, n)
	for i := range all {
		all[i] = d.fresh(blocks())
	}
	return all
}

func (d *drawing) add(at time.Duration, contents []uint64, tail, output, adapter int, key uint64) []int32 {
	own := d.fresh((tail + BlockTokens - 1) / BlockTokens)
	var blocks []int32
	if adapter != 0 {
		blocks = d.w.tree.prompt(blocks, contents[0]^mix(uint64(adapter)))
		contents = contents[1:]
	}
	blocks = d.w.tree.prompt(d.w.tree.prompt(blocks, contents...), own...)
	d.w.Requests = append(d.w.Requests,
		Request{At: at, Input: (len(blocks)-len(own))*BlockTokens + max(tail, 1), Output: output, Adapter: adapter,
			Key: key, Blocks: blocks})
	return blocks
}

// session is a conversation: each request's prompt contains all earlier ones.
type session struct {
	start    time.Duration
	contents []uint64
	adapter  int
	key      uint64
}

// turns adds the n requests of a session, with a mean pause between them. Each prompt is grow()
// blocks longer than the one before. tail and output draw the tokens of the prompt's last part and
// of the response.
func (d *drawing) turns(s session, n int, pause time.Duration, grow func() int, tail, output func() int) {
	at := s.start
	for range n {
		d.add(at, s.contents, tail(), output(), s.adapter, s.key)
		s.contents = append(slices.Clone(s.contents), d.fresh(grow())...)
		at += pause/2 + d.gap(2/pause.Seconds())
	}
}

func chat(d *drawing) {
	systems := d.prompts(300, func() int { return 3 + d.IntN(9) })
	popular := d.zipf(len(systems), 0.9)
	const turns = 3
	for at := d.gap(d.rate / turns); at < d.until; at += d.gap(d.rate / turns) {
		i := popular()
		d.turns(session{start: at, contents: systems[i], key: uint64(i)<<32 | uint64(len(d.w.Requests))},
			1+d.IntN(2*turns-1), 20*time.Second,
			func() int { return 1 + d.IntN(2) }, func() int { return d.about(300, .8) },
			func() int { return d.about(270, .6) })
	}
}

func rag(d *drawing) {
	documents := d.prompts(2000, func() int { return 4 + d.IntN(25) })
	popular := d.zipf(len(documents), 0.8)
	for at := d.gap(d.rate); at < d.until; at += d.gap(d.rate) {
		i := popular()
		d.add(at, documents[i], d.about(2000, .8), d.about(150, .5), 0, uint64(i))
	}
}

func documents(d *drawing) {
	const count, blocks = 188, 16 // 8,192 tokens each: together twice a server's cache
	all := d.prompts(count, func() int { return blocks/2 + d.IntN(blocks+1) })
	popular := d.zipf(count, 0.5)
	for at := d.gap(d.rate); at < d.until; at += d.gap(d.rate) {
		i := popular()
		d.add(at, all[i], d.about(150, .6), d.about(150, .5), 0, uint64(i))
	}
}

func lora(d *drawing) {
	systems := d.prompts(24, func() int { return 2 + d.IntN(7) })
	popular := d.zipf(len(systems), 0.8)
	for at := d.gap(d.rate); at < d.until; at += d.gap(d.rate) {
		i := popular()
		d.add(at, systems[i], d.about(1200, .8), d.about(150, .6), 1+i, uint64(i))
	}
}

func bursts(d *drawing) {
	systems := d.prompts(40, func() int { return 1 + d.IntN(4) })
	const factor, share = 6.0, 0.08 // a burst has factor times the usual rate, for this share of the time
	usual := d.rate / (1 + (factor-1)*share)
	at, until, burst := time.Duration(0), time.Duration(0), true
	for at < d.until {
		rate := usual
		if burst {
			rate *= factor
		}
		at += d.gap(rate)
		for at > until {
			if burst = !burst; burst {
				until += d.gap(1.0 / 6)
			} else {
				until += d.gap(share / (1 - share) / 6)
			}
		}
		i := d.IntN(len(systems))
		d.add(at, systems[i], d.about(2500, .8), d.about(200, .6), 0, uint64(i)<<32|uint64(len(d.w.Requests)))
	}
}

func agents(d *drawing) {
	tools := d.prompts(30, func() int { return 4 + d.IntN(9) })
	const calls = 15
	for at := d.gap(d.rate / calls); at < d.until; at += d.gap(d.rate / calls) {
		i := d.IntN(len(tools))
		s := session{start: at, contents: append(slices.Clone(tools[i]), d.fresh(3+d.IntN(8))...),
			key: uint64(len(d.w.Requests))}
		d.turns(s, calls/2+d.IntN(calls+1), 12*time.Second, func() int { return 1 + d.IntN(3) },
			func() int { return d.about(300, .6) },
			func() int { return d.about(120, .6) })
	}
}
