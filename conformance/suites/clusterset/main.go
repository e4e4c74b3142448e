package main

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "file with a context for each cluster")
	flag.StringVar(&o.clusters, "clusters", "",
		"NAME=CONTEXT of each member, comma-separated; the first exports, and has the gateways under test")
	flag.StringVar(&o.profiles, "profiles", "controller,gateway", "profiles, comma-separated")
	flag.StringVar(&o.shape, "shape", "",
		"the imports' status: upstream (status.controllers alone) or seed (status.clusters)")
	flag.StringVar(&o.class, "gateway-class", "", "GatewayClass of the implementation, for profile gateway")
	flag.IntVar(&o.port, "gateway-port", 80, "port of the Gateways' listeners")
	flag.StringVar(&o.addresses, "addresses", "",
		"one or two IP addresses of this machine that the gateways reach, comma-separated, for profile gateway")
	flag.StringVar(&o.service, "service-type", "LoadBalancer", "type of the pickers' Services, for profile controller")
	flag.StringVar(&o.run, "run", "", "regular expression of tests; writes no report")
	flag.StringVar(&o.report, "report", "", "file for the report")
	flag.DurationVar(&o.timeout, "timeout", time.Minute, "of each wait")
	flag.StringVar(&o.implementation.Organization, "organization", "", "in the report")
	flag.StringVar(&o.implementation.Project, "project", "", "in the report")
	flag.StringVar(&o.implementation.URL, "url", "", "in the report")
	flag.StringVar(&o.implementation.Version, "version", "", "in the report")
	contact := flag.String("contact", "", "in the report, comma-separated")
	list := flag.Bool("namespaces", false,
		"print the namespaces of the tests, and run none: an implementation may have to allow their exports")
	flag.Parse()
	if *list {
		for i := range tests {
			fmt.Println(tests[i].namespace())
		}
		return
	}
	o.implementation.Contact = split(*contact)
	suite, err := o.suite()
	if err != nil {
		fmt.Fprintln(os.Stderr, "clusterset-conformance:", err)
		os.Exit(2)
	}
	if err := o.test(ctx, suite); err != nil {
		fmt.Fprintln(os.Stderr, "clusterset-conformance:", err)
		os.Exit(1)
	}
}

type options struct {
	kubeconfig, clusters, profiles, shape, class, addresses, service, run, report string

	port           int
	timeout        time.Duration
	implementation Implementation
}

func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func (o options) suite() (*Suite, error) {
	c := Config{Shape: Shape(o.shape), GatewayClass: o.class, GatewayPort: o.port, ServiceType: o.service,
		Timeout: o.timeout,
		Log:     func(format string, args ...any) { fmt.Printf(format+"\n", args...) }}
	for _, pair := range split(o.clusters) {
		name, context, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("-clusters: %q: write NAME=CONTEXT", pair)
		}
		config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
			&clientcmd.ClientConfigLoadingRules{ExplicitPath: o.kubeconfig},
			&clientcmd.ConfigOverrides{CurrentContext: context}).ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("-clusters: %s: %w", pair, err)
		}
		config.QPS = -1
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, fmt.Errorf("-clusters: %s: %w", pair, err)
		}
		c.Clusters = append(c.Clusters, Cluster{Name: name, Client: client})
	}
	for _, p := range split(o.profiles) {
		c.Profiles = append(c.Profiles, Profile(p))
	}
	for _, text := range split(o.addresses) {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("-addresses: %w", err)
		}
		c.Addresses = append(c.Addresses, a)
	}
	if o.run != "" {
		var err error
		if c.Run, err = regexp.Compile(o.run); err != nil {
			return nil, fmt.Errorf("-run: %w", err)
		}
	}
	return New(c)
}

func (o options) test(ctx context.Context, suite *Suite) error {
	results := suite.Run(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	passed, failed, skipped := 0, 0, 0
	for _, r := range results {
		switch {
		case r.Err != nil:
			failed++
		case r.Skipped != "":
			skipped++
		default:
			passed++
		}
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if o.report != "" && o.run == "" {
		text, err := suite.Report(o.implementation, results)
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.report, text, 0o644); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d tests failed", failed, len(results))
	}
	return nil
}
