package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A step's change depends only on the seed, the step's number and the current world. So any subset
// of the steps is a valid sequence.

func parseSteps(text string) (steps []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		a, err := strconv.Atoi(first)
		if err != nil {
			return nil, fmt.Errorf("steps %q: %w", text, err)
		}
		b, err := strconv.Atoi(last)
		if err != nil || b < a {
			return nil, fmt.Errorf("steps %q: %q is no range", text, part)
		}
		for n := a; n <= b; n++ {
			steps = append(steps, n)
		}
	}
	return steps, nil
}

func formatSteps(steps []int) string {
	var parts []string
	for i := 0; i < len(steps); {
		j := i
		for j+1 < len(steps) && steps[j+1] == steps[j]+1 {
			j++
		}
		part := strconv.Itoa(steps[i])
		if j > i {
			part += "-" + strconv.Itoa(steps[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

func (o options) until(step int) []int {
	if o.Play != nil {
		return slices.DeleteFunc(slices.Clone(o.Play), func(n int) bool { return n > step })
	}
	var steps []int
	for n := 1; n <= min(step, o.Steps); n++ {
		steps = append(steps, n)
	}
	return steps
}

func shorter(steps []int, fails func([]int) bool) []int {
	for size := len(steps) / 2; size >= 1; size /= 2 {
		for at := 0; at < len(steps); {
			rest := slices.Concat(steps[:at], steps[min(at+size, len(steps)):])
			if len(rest) > 0 && fails(rest) {
				steps = rest
			} else {
				at += size
			}
		}
	}
	return steps
}

// shrink tries each candidate twice, because a failure may be rare.
func shrink(ctx context.Context, o options, failed failure, within time.Duration, out io.Writer) (options, error) {
	deadline := time.Now().Add(within)
	o.Early, o.Verbose, o.Progress = true, nil, nil
	dir := o.Dir
	var broken error
	try := 0
	o.Play = shorter(o.until(failed.Step+1), func(steps []int) bool {
		for range 2 {
			if time.Now().After(deadline) || ctx.Err() != nil || broken != nil {
				return false
			}
			try++
			next := o
			next.Play, next.Dir = steps, filepath.Join(dir, fmt.Sprintf("try-%d", try))
			r, err := newRun(next)
			if err != nil {
				broken = err
				return false
			}
			res, err := r.play(ctx)
			fmt.Fprintf(out, "shrink: %d steps: %d failed (%v)\n", len(steps), len(res.Failures), err)
			if err := os.RemoveAll(next.Dir); err != nil {
				broken = err
			}
			if len(res.Failures) > 0 {
				return true
			}
		}
		return false
	})
	o.Early = false
	return o, broken
}

func (o options) script(log []string) string {
	var b strings.Builder
	b.WriteString("#!/bin/sh\n# From the top of the source tree. The steps were:\n")
	for _, line := range log {
		if _, did, found := strings.Cut(line, " step "); found {
			fmt.Fprintf(&b, "#   %s\n", did)
		}
	}
	fmt.Fprintf(&b, "cd conformance && exec %s\n", o.replay())
	return b.String()
}
