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
	asFollower()
	asReader()
	picks.AsChild()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := flag.String("run", ".", "regular expression of the figures")
	penstock := flag.String("penstock", "", "the penstock binary, for figures of processes; empty omits them")
	envoy := flag.String("envoy", os.Getenv("ENVOY"),
		"the Envoy binary, for figures with a real Envoy; empty omits them")
	gateway := flag.String("envoy-gateway", os.Getenv("ENVOY_GATEWAY"),
		"the envoy-gateway binary, a peer; empty omits its figures")
	labs := flag.Bool("labs", false, "start labs for figures on Kubernetes; without it they are omitted")
	clusters := flag.Bool("multicluster", false, "measure cluster sets; without it their figures are omitted")
	picker := flag.Bool("picker", false, "measure picks; without it their figures are omitted")
	shape := flag.String("shape", "3x8",
		"clusters and servers of each for the figures sel_*; 3x8-slow has a last cluster that is half as fast")
	profile := flag.String("profile", "", "folder for a CPU and a heap profile of each figure; empty: none")
	dist := flag.String("dist", "", "folder of a release that make release wrote, for its figures; empty omits them")
	flag.Parse()
	if err := measure(ctx, *run,
		config{dist: *dist, penstock: *penstock, envoy: *envoy, envoyGateway: *gateway, labs: *labs, picker: *picker,
			clusters: *clusters, profiles: *profile, shape: *shape}); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// config has the programs that figures may need.
type config struct {
	penstock, envoy, envoyGateway, profiles, shape, dist string
	labs, picker, clusters                               bool
}

// measure runs the selected measurements, one after the other. A failure does not stop the others.
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
		fmt.Fprintf(os.Stderr, "bench: %s\n", m.what)
		err := m.profiled(ctx, c)
		if err != nil {
			failed++
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", m.names[0], err)
		}
		fmt.Fprintf(os.Stderr, "bench: %s: done in %s\n", m.names[0], time.Since(start).Round(100*time.Millisecond))
		debug.FreeOSMemory() // memory of one figure must not slow the next
	}
	fmt.Fprintf(os.Stderr, "bench: load average before %s, after %s\n", before, load())
	if failed > 0 {
		return fmt.Errorf("%d measurements failed", failed)
	}
	return nil
}
