package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"
)

type run struct {
	context.Context
	config  Config
	members []*member
	after   []func()
	err     error
}

const pause = 50 * time.Millisecond

// run runs a test in its own goroutine, because a failure ends the goroutine.
func (s *Suite) run(ctx context.Context, t Test) Result {
	result := Result{Test: t, Skipped: s.config.skipped(t)}
	if result.Skipped != "" {
		return result
	}
	r := &run{Context: ctx, config: s.config}
	namespace := t.namespace()
	for _, c := range s.config.Clusters {
		r.members = append(r.members, &member{run: r, name: c.Name, client: c.Client, namespace: namespace})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer r.clean()
		defer func() {
			if p := recover(); p != nil {
				r.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		t.test(r)
	}()
	<-done
	result.Err = r.err
	return result
}

func (r *run) clean() {
	var cancel context.CancelFunc
	r.Context, cancel = context.WithTimeout(context.WithoutCancel(r.Context), r.config.Timeout)
	defer cancel()
	for len(r.after) > 0 {
		last := r.after[len(r.after)-1]
		r.after = r.after[:len(r.after)-1]
		last()
	}
}

func (r *run) fail(format string, args ...any) {
	r.err = errors.Join(r.err, fmt.Errorf(format, args...))
	runtime.Goexit()
}

func (r *run) must(err error) {
	if err != nil {
		r.fail("%w", err)
	}
}

// until polls until missing returns nil. After Config.Timeout, the test fails with the last error.
func (r *run) until(what string, missing func() error) {
	ctx, cancel := context.WithTimeout(r, r.config.Timeout)
	defer cancel()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		err := missing()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			r.fail("%s: %w", what, err)
		case <-tick.C:
		}
	}
}

func (r *run) exporter() *member    { return r.members[0] }
func (r *run) importers() []*member { return r.members[1:] }
