package main

import (
	"context"
	"slices"
	"sync"
	"time"
)

type departure struct {
	at        time.Duration
	request   int
	contender int
}

const stagger = 5 * time.Millisecond

func departures(requests []request, contenders int) []departure {
	var all []departure
	for i, r := range requests {
		for c := range contenders {
			all = append(all, departure{at: r.at + time.Duration((c+i)%contenders)*stagger, request: i, contender: c})
		}
	}
	slices.SortStableFunc(all, func(a, b departure) int { return int(min(max(a.at-b.at, -1), 1)) })
	return all
}

type sending func(ctx context.Context, late time.Duration)

// play calls prepare before each departure. At the departure's time, a goroutine calls the function
// that prepare returned, even if earlier requests are unanswered. Its argument late is the delay.
func play(ctx context.Context, all []departure, prepare func(departure) sending) {
	var sent sync.WaitGroup
	defer sent.Wait()
	begin := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for _, d := range all {
		send := prepare(d)
		timer.Reset(time.Until(begin.Add(d.at)))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		sent.Go(func() { send(ctx, time.Since(begin.Add(d.at))) })
	}
}
