package simulation

import (
	"math"
	"slices"
	"time"
)

// Summary describes the outcomes of a part of a run.
type Summary struct {
	Requests int
	Streams  int
	Shed     int
	// TTFT50 and TTFT90 are the 50th and 90th percentiles of the time to a stream's first byte.
	// WaitP90 is the 90th percentile of the time to the first step. EndToEnd is the mean time to
	// the end. All times begin at the arrival.
	TTFT50, TTFT90, WaitP90, EndToEnd time.Duration
	// Hits is the share of prompt tokens that were cached, 0 to 1.
	Hits float64
	// Balance is the largest number of prompt tokens that one server computed, divided by the mean.
	Balance float64
	// Goodput is the number of requests per second whose first byte came within goodTTFT.
	Goodput float64
}

const goodTTFT = 5 * time.Second

// Summarize describes the requests that arrived in [from, until).
func Summarize(w *Workload, outcomes []Outcome, from, until time.Duration) Summary {
	var s Summary
	var ttft, wait []time.Duration
	var total, input, cached, good float64
	var computed []float64
	for i := range outcomes {
		o, r := &outcomes[i], &w.Requests[i]
		if r.At < from || r.At >= until {
			continue
		}
		if o.Server < 0 {
			s.Shed++
			continue
		}
		s.Requests++
		if !r.Whole {
			s.Streams++
			ttft = append(ttft, o.FirstByte-r.At)
		}
		wait = append(wait, o.Scheduled-r.At)
		total += (o.End - r.At).Seconds()
		input += float64(r.Input)
		cached += float64(o.Cached)
		if o.FirstByte-r.At <= goodTTFT {
			good++
		}
		for len(computed) <= o.Server {
			computed = append(computed, 0)
		}
		computed[o.Server] += float64(r.Input - o.Cached)
	}
	if s.Requests == 0 {
		return s
	}
	slices.Sort(ttft)
	slices.Sort(wait)
	s.TTFT50, s.TTFT90, s.WaitP90 = quantile(ttft, 0.5), quantile(ttft, 0.9), quantile(wait, 0.9)
	s.EndToEnd = time.Duration(total / float64(s.Requests) * float64(time.Second))
	s.Hits = cached / input
	sum := 0.0
	for _, c := range computed {
		sum += c
	}
	if sum > 0 {
		s.Balance = slices.Max(computed) * float64(len(computed)) / sum
	}
	if until == math.MaxInt64 {
		until = w.Requests[len(w.Requests)-1].At
	}
	s.Goodput = good / (until - from).Seconds()
	return s
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
