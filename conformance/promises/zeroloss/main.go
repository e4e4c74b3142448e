package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/process"
	"github.com/penstock-project/penstock/conformance/promises/soak"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "zeroloss:", err)
		os.Exit(1)
	}
}

type invocation struct {
	options
	shrinking time.Duration
	keep      bool
}

func parse() (o invocation, err error) {
	var only, play string
	var verbose bool
	flag.Uint64Var(&o.Seed, "seed", 1, "seed of the changes")
	flag.IntVar(&o.Steps, "steps", 1000, "number of changes")
	flag.IntVar(&o.Rate, "rate", 200, "requests a second")
	flag.IntVar(&o.Streams, "streams", 50, "streams at a time")
	flag.IntVar(&o.Events, "events", 55, "number of events in the longest streams, 10 a second")
	flag.DurationVar(&o.Drain, "drain-time", 15*time.Second,
		"Envoy's drain time for streams of removed listeners: longer than any stream")
	flag.DurationVar(&o.Pace, "pace", 150*time.Millisecond, "time between two changes, on average")
	flag.IntVar(&o.Restarts, "restarts", 3, "restarts of each control plane: SIGTERM, SIGKILL and SIGSTOP in turn")
	flag.DurationVar(&o.Soak, "soak", 0,
		"run so long, with faults (SIGTERM, SIGKILL, SIGSTOP, a state folder that cannot be used, a DNS server that "+
			"fails), and measure whether memory grows")
	flag.IntVar(&o.Envoys, "envoys", 1, "number of Envoys of the Gateway, for two control planes")
	flag.BoolVar(&o.Up, "up", false, "run penstock up, without restarts, instead of two control planes")
	flag.StringVar(&only, "only", "", "kinds of change, comma-separated (default: all)")
	flag.StringVar(&o.Penstock, "penstock", "", "binary (default: built from the source tree)")
	flag.StringVar(&o.Dir, "dir", "",
		"folder for files and logs, kept (default: a temporary one, removed if nothing failed)")
	flag.StringVar(&play, "play", "", "steps to make, such as 1-40,57 (default: all)")
	flag.DurationVar(&o.shrinking, "shrink", 0, "if a request fails, look for a shorter failing sequence, for so long")
	flag.BoolVar(&verbose, "v", false, "print changes as they are made")
	flag.Parse()
	if only != "" {
		o.Only = strings.Split(only, ",")
	}
	if play != "" {
		if o.Play, err = parseSteps(play); err != nil {
			return o, err
		}
	}
	if verbose {
		o.Verbose = os.Stderr
	}
	o.Progress = os.Stderr
	if o.keep = o.Dir != ""; !o.keep {
		o.Dir, err = os.MkdirTemp("", "zl")
	}
	return o, err
}

func command(ctx context.Context) error {
	o, err := parse()
	if err != nil {
		return err
	}
	if err := o.binaries(ctx); err != nil {
		return err
	}
	if o.Soak > 0 && o.Soak < soak.Shortest {
		fmt.Fprintf(os.Stderr, "zeroloss: a soak of %s does not judge whether memory grows: that takes %s\n", o.Soak,
			soak.Shortest)
	}
	r, err := newRun(o.options)
	if err != nil {
		return err
	}
	res, err := r.play(ctx)
	explain(os.Stdout, o.options, res)
	fmt.Printf("%d changes and %d planned restarts in %s; %d requests, %d of them streams: %d failed\n", res.Changes,
		res.Restarts, res.Took.Round(time.Second), res.Requests, res.Streams, len(res.Failures))
	figures(os.Stdout, res.figures()...)
	if res.Samples != nil {
		err = errors.Join(err, reportSoak(os.Stdout, res))
	}
	if o.shrinking > 0 && len(res.Failures) > 0 {
		short, err := shrink(ctx, o.options, res.Failures[0], o.shrinking, os.Stderr)
		fmt.Fprintf(os.Stderr, "shortest failing sequence: %s\n", short.replay())
		if err != nil {
			return err
		}
	}
	if err == nil && len(res.Failures) > 0 {
		err = fmt.Errorf("%d requests failed", len(res.Failures))
		if n := res.inStalls(); n > 0 {
			err = fmt.Errorf("%w, %d of them in standstills of the machine: repeat the run with less load beside it",
				err, n)
		}
	}
	if err == nil && !o.keep {
		return os.RemoveAll(o.Dir)
	}
	return errors.Join(err, keepSteps(os.Stdout, o.Dir, res.Log))
}

func (o *options) binaries(ctx context.Context) (err error) {
	if o.Envoy, err = process.Envoy(ctx); err != nil || o.Penstock != "" {
		return err
	}
	o.Penstock, err = process.Penstock(ctx, o.Dir)
	return err
}
