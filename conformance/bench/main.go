package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/penstock-project/penstock/conformance/bench/picks"
)

func main() {
	runIfChild(followerEnv, runFollower)
	runIfChild(readerEnv, runReader)
	runIfChild(idleEnv, runIdle)
	runIfChild(restEnv, runRest)
	picks.AsChild()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c config
	run := flag.String("run", ".", "regular expression of the figures")
	flag.StringVar(&c.penstock, "penstock", "", "the penstock binary, for figures of processes; empty omits them")
	flag.StringVar(&c.envoy, "envoy", os.Getenv("ENVOY"),
		"the Envoy binary, for figures with a real Envoy; empty omits them")
	flag.BoolVar(&c.labs, "labs", false, "start labs for figures on Kubernetes; without it they are omitted")
	flag.BoolVar(&c.clusters, "multicluster", false, "measure cluster sets; without it their figures are omitted")
	flag.BoolVar(&c.access, "access", false, "measure gates; without it their figures are omitted")
	flag.BoolVar(&c.engines, "engines", false,
		"measure model servers that penstock starts, and their models; without it their figures are omitted")
	flag.BoolVar(&c.picker, "picker", false, "measure picks; without it their figures are omitted")
	flag.StringVar(&c.profiles, "profile", "", "folder for a CPU and a heap profile of each figure; empty: none")
	flag.StringVar(&c.dist, "dist", "",
		"folder of a release that make release wrote, for its figures; empty omits them")
	flag.Parse()
	err := os.Setenv("ENVOY", c.envoy)
	if err == nil {
		err = measure(ctx, *run, c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type config struct {
	penstock, envoy, profiles, dist string
	labs, picker, clusters, access  bool
	engines                         bool
}

func measure(ctx context.Context, run string, c config) error {
	chosen, err := regexp.Compile(run)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	before := load()
	failed := 0
	for _, m := range measurements {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !m.gives(chosen) || m.needs != nil && !m.needs(c) {
			continue
		}
		start := time.Now()
		name := m.figures[0].name
		fmt.Fprintf(os.Stderr, "bench: %s\n", m.what)
		if err := m.profiled(ctx, c); err != nil {
			failed++
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", name, err)
		}
		fmt.Fprintf(os.Stderr, "bench: %s: done in %s\n", name, time.Since(start).Round(100*time.Millisecond))
		debug.FreeOSMemory() // so that one measurement's memory does not slow the next
	}
	fmt.Fprintf(os.Stderr, "bench: load average before %s, after %s\n", before, load())
	if failed > 0 {
		return fmt.Errorf("%d measurements failed", failed)
	}
	return nil
}

func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	var first string
	_, _ = fmt.Sscan(string(text), &first)
	return first
}
