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

const around = time.Minute

const leastTraffic = 20 * time.Second

type config struct {
	penstock, envoy, rivals, traces, workload, own string
	minutes                                        float64
	full                                           bool
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
	flag.Float64Var(&c.minutes, "minutes", 55, "about how long all workloads take in one scenario")
	flag.BoolVar(&c.full, "full", false,
		"50, 70 and 90 % load, with the rivals' default settings and with recommended ones")
	flag.Parse()
	if err := compareRivals(ctx, c, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "rivals:", err)
		os.Exit(1)
	}
}

func (c *config) scenarios() []scenario {
	if !c.full {
		return []scenario{usual}
	}
	var all []scenario
	for _, by := range []setting{defaults, best} {
		for _, load := range []float64{0.5, 0.7, 0.9} {
			all = append(all, scenario{by, load})
		}
	}
	return all
}

func compareRivals(ctx context.Context, c config, out, progress io.Writer) error {
	chosen, err := regexp.Compile(c.workload)
	if err != nil {
		return fmt.Errorf("WORKLOAD: %w", err)
	}
	all := slices.DeleteFunc(workloads(c.traces), func(w workload) bool { return !chosen.MatchString(w.name) })
	adds := chosen.MatchString(overheadName)
	if len(all) == 0 && !adds {
		return fmt.Errorf("no workload matches %q", c.workload)
	}
	against, missing, err := contenders(c.rivals, defaults, []string{c.own})
	if err != nil {
		return err
	}
	echo, stop, err := serveEcho()
	if err != nil {
		return err
	}
	defer stop()
	further, alsoMissing := parts(c.envoy, c.rivals, echo)
	for _, line := range append(missing, alsoMissing...) {
		fmt.Fprintln(progress, "rivals:", line)
	}
	lasts := traffic(c.minutes, len(all))
	announce(progress, all, against, c.scenarios(), lasts, adds)
	var lines []figure
	var failures []error
	fail := func(name string, err error) {
		failures = append(failures, fmt.Errorf("%s: %w", name, err))
		fmt.Fprintln(progress, "rivals:", failures[len(failures)-1])
	}
	if adds {
		found, err := overhead(ctx, c.penstock, c.envoy, append(slices.Clone(against), further...))
		if err != nil {
			fail(overheadName, err)
		}
		if len(found) > 0 {
			printOverhead(progress, found)
			lines = overheadFigures(found)
		}
	}
	for _, by := range c.scenarios() {
		if against, _, err = contenders(c.rivals, by.rivals, []string{c.own}); err != nil {
			return err
		}
		var compared []comparison
		for _, w := range all {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			fmt.Fprintf(progress, "rivals: %s %s, %.0f %% load, %s: begins\n",
				time.Now().Format(time.TimeOnly), w.name, 100*by.load, by.rivals)
			p, err := run(ctx, c.penstock, c.envoy, w, against, by.load, lasts)
			if err != nil {
				fail(w.name, err)
				continue
			}
			result := compareAll(p)
			result.print(progress)
			compared = append(compared, result)
			if len(result.ratios) == 0 {
				fail(w.name, errors.New("nothing is compared"))
			}
		}
		if len(compared) > 0 {
			lines = append(lines, figures(compared, by)...)
		}
	}
	return errors.Join(emit(out, lines), errors.Join(failures...))
}

func announce(
	progress io.Writer, all []workload, against []contender, scenarios []scenario, lasts time.Duration, adds bool,
) {
	var names, played []string
	for _, a := range against {
		names = append(names, a.name)
	}
	takes := time.Duration(len(all)*len(scenarios)) * (lasts + around)
	if adds {
		played, takes = append(played, overheadName), takes+3*around
	}
	for _, w := range all {
		played = append(played, w.name)
	}
	fmt.Fprintf(progress, "rivals: about %s: %s\n", takes.Round(time.Minute), strings.Join(played, ", "))
	if len(all) > 0 {
		for _, by := range scenarios {
			fmt.Fprintf(progress, "rivals: each workload has %s of traffic at %.0f %% load, rivals have %s\n",
				lasts.Round(time.Second), 100*by.load, by.rivals)
		}
	}
	fmt.Fprintf(progress, "rivals: at the same time %s, each with %d servers\n",
		strings.Join(names, ", "), serversOfFleet)
}

// traffic returns how long each of n workloads lasts, if all together last the given minutes.
func traffic(minutes float64, n int) time.Duration {
	return max(leastTraffic, time.Duration(minutes*float64(time.Minute))/time.Duration(max(n, 1))-around)
}
