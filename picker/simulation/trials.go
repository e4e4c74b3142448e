package simulation

import (
	"math"
	"runtime"
	"sync"
	"time"
)

// Trial is a scenario whose outcomes are summarized.
type Trial struct {
	Scenario
	All bool // include the requests before Workload.Warm
}

// Warm returns the time after which servers count as warmed up: a fifth of the workload's duration.
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

// Each calls f with each number from 0 to n-1, concurrently on all processors.
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

// Drawings returns n trials of a scenario, with a source's workloads 1 to n. rate is in requests a
// second.
func Drawings(base Scenario, from Source, rate float64, n int) []Trial {
	trials := make([]Trial, n)
	Each(n, func(i int) {
		trials[i].Scenario = base
		trials[i].Workload, trials[i].Seed = from.Draw(rate, i+1), uint64(i+1)
	})
	return trials
}
