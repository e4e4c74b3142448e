package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// stallLimit is the shortest stall that is recorded: half of a pick's time limit.
const stallLimit = time.Second

type stall struct{ from, to time.Time }

func (r *run) stalled(name string, d time.Duration) {
	r.note("%s stalled for %s", name, d.Round(time.Millisecond))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stalls = append(r.stalls, stall{time.Now().Add(-d), time.Now()})
}

// inStalls counts requests that failed during a stall. They prove no loss, but the run still fails.
func (res result) inStalls() (n int) {
	for _, f := range res.Failures {
		if slices.ContainsFunc(res.Stalls, func(s stall) bool {
			return s.from.Before(f.At) && s.to.After(f.At.Add(-f.Took))
		}) {
			n++
		}
	}
	return n
}

func (r *run) watch(ctx context.Context) {
	const every = 100 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	for last := time.Now(); ; last = time.Now() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if gap := time.Since(last) - every; gap > stallLimit {
			r.stalled("the harness", gap)
		}
	}
}

func (r *run) watchEdge(ctx context.Context, e edge) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	client := &http.Client{Timeout: requestTimeout}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/ready", e.admin),
			nil)
		if err != nil {
			return
		}
		asked := time.Now()
		resp, err := client.Do(req)
		if err != nil {
			continue // the Envoy has ended; end reports this
		}
		_ = resp.Body.Close()
		if took := time.Since(asked); took > stallLimit {
			r.stalled(e.Name, took)
		}
	}
}
