package simulation

import (
	"math"
	"runtime"
	"sync"
	"time"
)

// Trial is a scenario, and the part of it that counts.
type Trial struct {
	Scenario
	All bool // all requests count; otherwise the ones after the first fifth, when caches are warm
}

// Warm is a fifth of a workload's time.
func (w *Workload) Warm() time.Duration { return w.Requests[len(w.Requests)-1].At / 5 }

// Play runs trials concurrently, and returns their summaries in order.
func Play(trials []Trial) []Summary {
	summaries := make([]Summary, len(trials))
	Each(len(trials), func(i int) { summaries[i] = trials[i].play() })
	return summaries
}

func (t *Trial) play() Summary {
	from := time.Duration(0)
	if !t.All {
		from = t.Workload.Warm()
	}
	return Summarize(t.Workload, Run(t.Scenario), from, math.MaxInt64)
}

// Each calls f for 0 to n-1, concurrently on all processors.
func Each(n int, f func(i int)) {
	next := make(chan int)
	var all sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		all.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}

// capacityWait is the 90th percentile of the time from arrival to first scheduled that defines
// capacity.
const capacityWait = 5 * time.Second

// Capacity returns the rate, in requests a second, that reaches capacityWait, as the mean over
// drawings 1 to n. It brackets the rate by steps of 30 %, starting at around, and then bisects to 1
// %.
func Capacity(base Scenario, from Source, around float64, n int) float64 {
	over := func(rate float64) bool {
		total := time.Duration(0)
		for _, s := range Play(Drawings(base, from, rate, n)) {
			total += s.WaitP90
		}
		return total > time.Duration(n)*capacityWait
	}
	low, high := around, around
	if over(around) {
		for low /= 1.3; over(low); low /= 1.3 {
			high = low
		}
	} else {
		for high *= 1.3; !over(high); high *= 1.3 {
			low = high
		}
	}
	for high > low*1.01 {
		if rate := math.Sqrt(low * high); over(rate) {
			high = rate
		} else {
			low = rate
		}
	}
	return math.Sqrt(low * high)
}

// Drawings returns a scenario with drawings 1 to n of a source, at a rate. Arrivals are equal for
// all scenarios.
func Drawings(base Scenario, from Source, rate float64, n int) []Trial {
	trials := make([]Trial, n)
	Each(n, func(i int) {
		trials[i].Scenario = base
		trials[i].Workload, trials[i].Seed = from.Draw(rate, i+1), uint64(i+1)
	})
	return trials
}
