package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"time"

	"k8s.io/client-go/dynamic"
)

// Profile is a role that an implementation claims.
type Profile string

const (
	// Controller is the role of making InferencePoolImports in the members.
	Controller Profile = "controller"
	// Gateway is the role of routing requests to InferencePoolImports.
	Gateway Profile = "gateway"
)

// Profiles are all profiles.
var Profiles = []Profile{Controller, Gateway}

// Shape is the form of an InferencePoolImport's status.
type Shape string

const (
	// Upstream is the merged form: status.controllers[].exportingClusters.
	Upstream Shape = "upstream"
	// Seed is the drafted form: status.clusters[], with the wiring (how to reach an exporter).
	Seed Shape = "seed"
)

// Cluster is a member of the cluster set.
type Cluster struct {
	// Name is the member's name in imports.
	Name string
	// Client has an administrator's permissions.
	Client dynamic.Interface
}

// Config configures a Suite.
type Config struct {
	// Clusters are the members. Profile Controller needs two or more, and the first member exports.
	// Profile Gateway uses only the first member.
	Clusters []Cluster
	// Profiles are tested; empty: all.
	Profiles []Profile
	Shape    Shape
	// GatewayClass is the class of the Gateways, for profile Gateway.
	GatewayClass string
	// GatewayPort is the port of the Gateways' listeners; 0: 80.
	GatewayPort int
	// Addresses are addresses of this machine that gateways reach, for profile Gateway. Tests with
	// two model servers need two addresses, because both servers have the same port.
	Addresses []netip.Addr
	// ServiceType is the type of the pickers' Services, for profile Controller; "": LoadBalancer.
	ServiceType string
	// Timeout bounds each wait; 0: a minute.
	Timeout time.Duration
	// Run selects tests by name; nil: all.
	Run *regexp.Regexp
	// Log receives a line for each test that begins or ends; nil: no log.
	Log func(format string, args ...any)
}

// Suite runs tests on one cluster set.
type Suite struct {
	config Config
	tests  []Test
}

// New checks a configuration.
func New(c Config) (*Suite, error) {
	if len(c.Profiles) == 0 {
		c.Profiles = Profiles
	}
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	if c.GatewayPort == 0 {
		c.GatewayPort = 80
	}
	if c.ServiceType == "" {
		c.ServiceType = "LoadBalancer"
	}
	if c.Log == nil {
		c.Log = func(string, ...any) {}
	}
	if c.Shape != Upstream && c.Shape != Seed {
		return nil, fmt.Errorf("shape %q: write %q or %q", c.Shape, Upstream, Seed)
	}
	names := map[string]bool{}
	for i, cluster := range c.Clusters {
		if cluster.Name == "" || cluster.Client == nil {
			return nil, fmt.Errorf("cluster %d: has no name or no client", i)
		}
		if names[cluster.Name] {
			return nil, fmt.Errorf("cluster %q: is there twice; each member has a name of its own", cluster.Name)
		}
		names[cluster.Name] = true
	}
	for _, p := range c.Profiles {
		switch {
		case !slices.Contains(Profiles, p):
			return nil, fmt.Errorf("profile %q: write %q or %q", p, Controller, Gateway)
		case p == Controller && len(c.Clusters) < 2:
			return nil, fmt.Errorf("profile %s: needs two clusters at least, has %d", p, len(c.Clusters))
		case p == Gateway && (len(c.Clusters) == 0 || c.GatewayClass == ""):
			return nil, fmt.Errorf("profile %s: needs a cluster and a GatewayClass", p)
		case p == Gateway && c.Shape == Seed && len(c.Addresses) == 0:
			return nil, fmt.Errorf("profile %s: needs an address of this machine that gateways reach", p)
		}
	}
	s := &Suite{config: c}
	for _, t := range tests {
		if slices.Contains(c.Profiles, t.Profile) && (c.Run == nil || c.Run.MatchString(t.Name)) {
			s.tests = append(s.tests, t)
		}
	}
	if len(s.tests) == 0 {
		return nil, errors.New("no test has such a name")
	}
	return s, nil
}

// Run runs the selected tests. It ends early if ctx ends.
func (s *Suite) Run(ctx context.Context) []Result {
	var out []Result
	for _, t := range s.tests {
		if ctx.Err() != nil {
			break
		}
		s.config.Log("%s %s: %s", t.Profile, t.Name, t.Proves)
		r := s.run(ctx, t)
		s.config.Log("%s %s: %s", t.Profile, t.Name, r)
		out = append(out, r)
	}
	return out
}

func (c Config) skipped(t Test) string {
	switch {
	case t.Needs&wiring != 0 && c.Shape != Seed:
		return "status.clusters is not in the merged form of InferencePoolImport"
	case t.Needs&third != 0 && len(c.Clusters) < 3:
		return "needs a third cluster"
	case t.Needs&second != 0 && len(c.Addresses) < 2:
		return "needs a second address of this machine"
	}
	return ""
}

// Result is a test's result.
type Result struct {
	Test
	// Skipped is why the test did not run; "" if it ran.
	Skipped string
	// Err is why the test failed; nil if it passed.
	Err error
}

// String returns "passed", or "skipped" or "FAILED" with the reason.
func (r Result) String() string {
	switch {
	case r.Skipped != "":
		return "skipped: " + r.Skipped
	case r.Err != nil:
		return "FAILED: " + r.Err.Error()
	}
	return "passed"
}
