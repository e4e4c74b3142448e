package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/image"
	"github.com/penstock-project/penstock/conformance/lab/installed"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c config
	flag.StringVar(&c.kubeconfig, "kubeconfig", "",
		"of a cluster with Penstock; empty: a new lab in which Penstock is installed")
	flag.StringVar(&c.programs, "suites", "../.tools/bin", "folder with the suites' test programs")
	flag.StringVar(&c.reports, "reports", "suites/reports", "folder for reports")
	flag.StringVar(&c.version, "version", "dev", "Penstock's version in the reports")
	flag.StringVar(&c.usable, "usable", "",
		"an address that a Gateway can have (default: one of the lab's for LoadBalancers)")
	flag.StringVar(&c.unusable, "unusable", "203.0.113.7", "an address that no Gateway can have")
	flag.StringVar(&c.test, "run", "", "one test by its short name; writes no report")
	flag.BoolVar(&c.core, "core", false, "core features only; writes no report")
	which := flag.String("suite", ".", "regular expression of the suites ("+names()+")")
	flag.Parse()
	chosen, err := regexp.Compile(*which)
	if err != nil {
		fmt.Fprintln(os.Stderr, "certify: -suite:", err)
		os.Exit(2)
	}
	if err := certify(ctx, c, chosen); err != nil {
		fmt.Fprintln(os.Stderr, "certify:", err)
		os.Exit(1)
	}
}

func certify(ctx context.Context, c config, chosen *regexp.Regexp) (err error) {
	for _, s := range suites {
		if chosen.MatchString(s.name) {
			err = errors.Join(err, s.on(ctx, c))
		}
	}
	if chosen.MatchString(clusterSetName) && !c.core {
		err = errors.Join(err, clusterSet(ctx, c))
	}
	return err
}

func (s suite) on(ctx context.Context, c config) (err error) {
	if c.kubeconfig == "" {
		config := lab.Config{Dir: "../.lab-" + s.name, ReleasesOf: s.pinned}
		if s.picker {
			config.Images = []image.Image{
				{Name: "lwepp", Program: "../bin/penstock", First: []string{"picker", "--conformance"}},
			}
		}
		l, err := installed.Start(ctx, config)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		defer func() { err = errors.Join(err, l.Down()) }()
		c.kubeconfig = l.Kubeconfig()
		if c.usable, err = spare(c.kubeconfig); err != nil {
			return err
		}
	}
	if err := s.run(ctx, c); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

type config struct {
	kubeconfig, programs, reports, version, usable, unusable, test string
	core                                                           bool
}
