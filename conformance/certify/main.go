package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c config
	flag.StringVar(&c.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "the cluster")
	flag.StringVar(&c.programs, "suites", ".tools/bin", "folder with the suites' test programs")
	flag.StringVar(&c.reports, "reports", "conformance/reports", "folder for reports")
	flag.StringVar(&c.version, "version", "dev", "of Penstock, for the reports")
	flag.StringVar(&c.usable, "usable", "", "an address that a Gateway can have")
	flag.StringVar(&c.unusable, "unusable", "", "an address that no Gateway can have")
	flag.StringVar(&c.test, "run", "", "one test by its short name; writes no report")
	flag.BoolVar(&c.core, "core", false, "core features only; writes no report")
	which := flag.String("suite", ".", "regular expression: which suites ("+names()+")")
	flag.Parse()
	chosen, err := regexp.Compile(*which)
	if err == nil && c.kubeconfig == "" {
		err = errors.New("-kubeconfig is missing: which cluster?")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "certify:", err)
		os.Exit(2)
	}
	failed := false
	for _, s := range suites {
		if !chosen.MatchString(s.name) {
			continue
		}
		if err := s.run(ctx, c); err != nil {
			fmt.Fprintf(os.Stderr, "certify: %s: %v\n", s.name, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// config is what a run needs.
type config struct {
	kubeconfig, programs, reports, version, usable, unusable, test string
	core                                                           bool
}

// report is where a suite writes its report; empty for a run that is not whole.
func (c config) report(name string) string {
	if c.core || c.test != "" {
		return ""
	}
	return filepath.Join(c.reports, name+".yaml")
}
