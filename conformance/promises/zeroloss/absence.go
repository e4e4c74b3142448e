package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

// away is how long the control planes are down while a new Envoy starts: long enough for its
// reconnect back-off to reach the maximum.
const away = 8 * time.Second

// absence is the time until such an Envoy serves.
type absence struct {
	started time.Duration // from the start of the control planes' processes until every host is served
	back    time.Duration // from when the first control plane is ready
}

// returns starts an Envoy while the control planes are down, and starts them after a while.
func (r *run) returns(ctx context.Context, after time.Duration) (took absence, err error) {
	if err := r.attach(); err != nil {
		return took, err
	}
	if err := wait(ctx, after); err != nil {
		return took, err
	}
	began := time.Now()
	for _, p := range r.planes {
		if err := p.start(r.Dir); err != nil {
			return took, err
		}
	}
	if err := process.Eventually(ctx, "a control plane is ready", func() (err error) {
		for _, p := range r.planes {
			if err = p.readyz(); err == nil {
				return nil
			}
		}
		return err
	}); err != nil {
		return took, err
	}
	back := time.Now()
	r.expect()
	err = r.announce(ctx)
	return absence{started: time.Since(began), back: time.Since(back)}, err
}

// absences repeats this, and returns the longest times.
func absences(ctx context.Context, o options, times int) (longest absence, err error) {
	for i := range times {
		next := o
		next.Dir = filepath.Join(o.Dir, fmt.Sprint("absence-", i))
		if err := os.MkdirAll(next.Dir, 0o700); err != nil {
			return longest, err
		}
		took, err := once(ctx, next)
		if err != nil {
			return longest, err
		}
		longest = absence{started: max(longest.started, took.started), back: max(longest.back, took.back)}
	}
	return longest, nil
}

func once(ctx context.Context, o options) (took absence, err error) {
	r, err := newRun(o)
	if err != nil {
		return took, err
	}
	defer func() { err = errors.Join(err, r.end()) }()
	if err := r.write(rand.New(rand.NewPCG(r.Seed, 0))); err != nil {
		return took, err
	}
	if err := r.servers(ctx); err != nil {
		return took, err
	}
	for _, p := range r.planes {
		if err := p.Stop(10 * time.Second); err != nil {
			return took, err
		}
	}
	return r.returns(ctx, away)
}
