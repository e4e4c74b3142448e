package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/conformance/lab/network"
)

type suite struct {
	name     string
	program  string
	pinned   string // folder of the go.mod that names the CRDs' releases; empty: conformance
	profiles string
	core     string
	picker   bool
	// prepare changes a cluster before the suite runs. skip lists, separated by commas, the tests
	// that the change makes meaningless. A run with skip writes no report.
	prepare func(ctx context.Context, kubeconfig string) error
	skip    string
	env     []string
}

// oneCPU avoids a data race of the inference extension's suite (v1.6.0): goroutines of its
// assertTrafficOnlyReachesToExpectedPods append to one slice in MakeRequest. The race ends with
// SIGSEGV.
var oneCPU = []string{"GOMAXPROCS=1"}

var suites = []suite{
	{name: "gateway-api", program: "gateway-api-conformance",
		profiles: "GATEWAY-HTTP,GATEWAY-GRPC,GATEWAY-TLS,GATEWAY-TCP,GATEWAY-UDP",
		// The core has tests for implementations that do not claim the TLS modes Terminate and
		// Mixed. Such implementations must not accept these modes.
		core: "Gateway,HTTPRoute,GRPCRoute,TLSRoute,TCPRoute,UDPRoute,ReferenceGrant,TLSRouteModeTerminate,TLSRouteModeMixed"},
	{name: "inference", program: "inference-conformance", pinned: "suites/inferencepool", env: oneCPU},
	{name: "inference-epp", program: "inference-conformance", pinned: "suites/inferencepool", picker: true,
		env: oneCPU},
	{name: "inference-own-picker", program: "inference-conformance", pinned: "suites/inferencepool", prepare: ownPicker,
		skip: needPicker, env: oneCPU},
}

func names() string {
	var list []string
	for _, s := range suites {
		list = append(list, s.name)
	}
	list = append(list, clusterSetName)
	return strings.Join(list, ", ")
}

func (s suite) run(ctx context.Context, c config) error {
	program, err := filepath.Abs(filepath.Join(c.programs, s.program))
	if err != nil {
		return err
	}
	if s.prepare != nil {
		if err := s.prepare(ctx, c.kubeconfig); err != nil {
			return err
		}
	}
	report := s.report(c)
	if report != "" {
		if report, err = filepath.Abs(report); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(report), 0o755); err != nil {
			return err
		}
	}
	args := s.args(c, report)
	fmt.Fprintf(os.Stderr, "certify: %s %s\n", s.program, strings.Join(args, " "))
	start := time.Now()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(append(os.Environ(), "KUBECONFIG="+c.kubeconfig), s.env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	err = cmd.Run()
	fmt.Fprintf(os.Stderr, "certify: %s: %s\n", s.name, time.Since(start).Round(time.Second))
	if err != nil || report == "" {
		return err
	}
	text, err := os.ReadFile(report)
	if err != nil {
		return fmt.Errorf("the suite passed and left no report: %w", err)
	}
	return read(text)
}

func (s suite) report(c config) string {
	if c.core || c.test != "" || s.skip != "" {
		return ""
	}
	return filepath.Join(c.reports, s.name+".yaml")
}

func (s suite) args(c config, report string) []string {
	args := []string{"-test.run=^TestConformance$", "-test.timeout=80m", "--gateway-class=penstock"}
	if !c.core { // -test.v prints thousands of lines
		args = append(args, "-test.v")
	}
	if s.profiles != "" {
		args = append(args, "--conformance-profiles="+s.profiles)
		if c.usable != "" {
			args = append(args, "--usable-address="+c.usable, "--unusable-address="+c.unusable)
		}
	}
	if c.core && s.core != "" {
		args = append(args, "--supported-features="+s.core)
	}
	if s.skip != "" {
		args = append(args, "--skip-tests="+s.skip)
	}
	if c.test != "" {
		args = append(args, "--run-test="+c.test)
	}
	if report != "" {
		args = append(args, "--report-output="+report, "--organization=penstock-project", "--project=penstock",
			"--url=https://github.com/penstock-project/penstock", "--version="+c.version,
			"--contact=https://github.com/penstock-project/penstock/issues")
	}
	return args
}

type results struct {
	Profiles []struct {
		Name     string  `json:"name"`
		Core     outcome `json:"core"`
		Extended *struct {
			outcome
			Unsupported []string `json:"unsupportedFeatures"`
		} `json:"extended"`
	} `json:"profiles"`
}

type outcome struct {
	Result     string `json:"result"`
	Statistics struct{ Passed, Skipped, Failed int }
	Skipped    []string `json:"skippedTests"`
	Failed     []string `json:"failedTests"`
}

func notOurs(feature string) bool { return strings.HasPrefix(feature, "Mesh") }

func read(text []byte) error {
	var r results
	if err := yaml.Unmarshal(text, &r); err != nil {
		return err
	}
	if len(r.Profiles) == 0 {
		return errors.New("the report has no profile")
	}
	var problems []error
	for _, p := range r.Profiles {
		line := fmt.Sprintf("%-12s core %d passed", p.Name, p.Core.Statistics.Passed)
		problems = append(problems, p.Core.problem(p.Name+" core"))
		if p.Extended != nil {
			line += fmt.Sprintf(", extended %d passed", p.Extended.Statistics.Passed)
			problems = append(problems, p.Extended.problem(p.Name+" extended"))
			if missing := slices.DeleteFunc(p.Extended.Unsupported, notOurs); len(missing) > 0 {
				problems = append(problems, fmt.Errorf("%s: not supported: %s", p.Name, strings.Join(missing, ", ")))
			}
		}
		fmt.Println(line)
	}
	return errors.Join(problems...)
}

func (o outcome) problem(where string) error {
	if o.Result != "success" || len(o.Skipped) > 0 || len(o.Failed) > 0 {
		return fmt.Errorf("%s: %s; failed: %v; skipped: %v", where, o.Result, o.Failed, o.Skipped)
	}
	return nil
}

// spare returns a free address of a lab's range for LoadBalancers, far from its beginning, where
// the lab assigns addresses. The API server's address identifies the range.
func spare(kubeconfig string) (string, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return "", err
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return "", err
	}
	node, err := netip.ParseAddr(server.Hostname())
	if err != nil {
		return "", fmt.Errorf("the lab's API server has no address: %w", err)
	}
	slot := int(node.As4()[1]) - int(network.Plan{}.All().Addr().As4()[1])
	address := network.Plan{Slot: slot}.LoadBalancers().Addr().As4()
	address[2], address[3] = address[2]+1, 10
	return netip.AddrFrom4(address).String(), nil
}
