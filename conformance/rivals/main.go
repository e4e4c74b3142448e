package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// around is the time that each workload takes in addition to its traffic: fleets start, and the
// last answers end.
const around = time.Minute

// leastTraffic is the shortest traffic of a workload.
const leastTraffic = 20 * time.Second

// config is what flags select.
type config struct {
	penstock, envoy, rivals, traces, workload, own string
	minutes                                        float64
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c config
	flag.StringVar(&c.penstock, "penstock", "", "the penstock binary")
	flag.StringVar(&c.envoy, "envoy", os.Getenv("ENVOY"), "the Envoy binary")
	flag.StringVar(&c.rivals, "rivals", "", "folder that conformance/tools/rivals/install.sh has filled")
	flag.StringVar(&c.traces, "traces", "bench/traces", "folder of the public traces")
	flag.StringVar(&c.workload, "workload", ".", "regular expression of the workloads")
	flag.StringVar(&c.own, "rival", "", "one more rival, as NAME=command with {port} and {workers} or {commas}")
	flag.Float64Var(&c.minutes, "minutes", 55, "about how long all workloads take")
	flag.Parse()
	if err := compareRivals(ctx, c, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "rivals:", err)
		os.Exit(1)
	}
}

// compareRivals plays the chosen workloads, one after the other. It writes figures to out, and
// tables to progress.
func compareRivals(ctx context.Context, c config, out, progress io.Writer) error {
	chosen, err := regexp.Compile(c.workload)
	if err != nil {
		return fmt.Errorf("WORKLOAD: %w", err)
	}
	all := slices.DeleteFunc(workloads(c.traces), func(w workload) bool { return !chosen.MatchString(w.name) })
	if len(all) == 0 {
		return fmt.Errorf("no workload matches %q", c.workload)
	}
	against, missing, err := contenders(c.rivals, []string{c.own})
	if err != nil {
		return err
	}
	for _, line := range missing {
		fmt.Fprintln(progress, "rivals:", line)
	}
	lasts := traffic(c.minutes, len(all))
	var names, played []string
	for _, w := range all {
		played = append(played, w.name)
	}
	for _, a := range against {
		names = append(names, a.name)
	}
	fmt.Fprintf(progress, "rivals: about %s: %s of traffic at %.0f %% load for each of %s\n",
		(time.Duration(len(all)) * (lasts + around)).Round(time.Minute), lasts.Round(time.Second), 100*load,
		strings.Join(played, ", "))
	fmt.Fprintf(progress, "rivals: at the same time %s, each with %d servers\n",
		strings.Join(names, ", "), serversOfFleet)
	var compared []comparison
	var failures []error
	for _, w := range all {
		fmt.Fprintf(progress, "rivals: %s %s begins\n", time.Now().Format(time.TimeOnly), w.name)
		p, err := run(ctx, c.penstock, c.envoy, w, against, lasts)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			failures = append(failures, fmt.Errorf("%s: %w", w.name, err))
			fmt.Fprintln(progress, "rivals:", failures[len(failures)-1])
			continue
		}
		result := compareAll(p)
		result.print(progress)
		compared = append(compared, result)
		if len(result.ratios) == 0 {
			failures = append(failures, fmt.Errorf("%s: nothing is compared", w.name))
		}
	}
	return errors.Join(emit(out, figures(compared)), errors.Join(failures...))
}

// traffic is how long each of n workloads has traffic, if all of them take so many minutes.
func traffic(minutes float64, n int) time.Duration {
	return max(leastTraffic, time.Duration(minutes*float64(time.Minute))/time.Duration(n)-around)
}
