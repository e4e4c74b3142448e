package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	slicesOfRun = 32
	resamples   = 1000
	// warm is the share of a workload's requests that fill the caches before the traffic. settle is
	// the share of the traffic in which queues grow to their usual length. Neither counts.
	warm, settle = 0.2, 0.1
	// A workload is void if the 99th percentile of lateness exceeds maxLate. A contender is not
	// compared if a larger share than maxFailed of its requests fails.
	maxLate   = 5 * time.Millisecond
	maxFailed = 0.01
)

// series has the values of each slice's answered requests, in seconds.
type series [][]float64

// sliceOf returns the slice in which a request arrives; negative: the request does not count.
func sliceOf(at, lasts time.Duration) int {
	from := time.Duration(settle * float64(lasts))
	if at < from {
		return -1
	}
	return min(int(float64(at-from)/float64(lasts-from)*slicesOfRun), slicesOfRun-1)
}

type statistic func([]float64) float64

// quantile returns a statistic, which sorts its argument.
func quantile(q float64) statistic {
	return func(values []float64) float64 {
		if len(values) == 0 {
			return math.NaN()
		}
		slices.Sort(values)
		return values[min(int(q*float64(len(values))), len(values)-1)]
	}
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// ratio is a value, with the bounds of the middle 95 % of its values for resampled slices.
type ratio struct{ value, low, high float64 }

// compare divides a's statistic by b's. Each resampling draws the same slices of both.
func compare(a, b series, stat statistic) ratio {
	return resampled(len(a), func(drawn []int) float64 { return stat(a.pooled(drawn)) / stat(b.pooled(drawn)) })
}

func (s series) pooled(drawn []int) (values []float64) {
	for _, i := range drawn {
		values = append(values, s[i]...)
	}
	return values
}

func resampled(n int, stat func(drawn []int) float64) ratio {
	drawn := make([]int, n)
	for i := range drawn {
		drawn[i] = i
	}
	r := ratio{value: stat(drawn)}
	random := rand.New(rand.NewPCG(1, 1))
	var all []float64
	for range resamples {
		for i := range drawn {
			drawn[i] = random.IntN(n)
		}
		if v := stat(drawn); !math.IsNaN(v) {
			all = append(all, v)
		}
	}
	r.low, r.high = quantile(0.025)(all), quantile(0.975)(all)
	return r
}

// noise expects the ratio of Penstock to itself. It returns the largest ratio or inverse ratio.
func (r ratio) noise() float64 { return max(r.high, 1/r.low) }

func (r ratio) equal(noise float64) bool { return r.value < noise && r.value > 1/noise }
