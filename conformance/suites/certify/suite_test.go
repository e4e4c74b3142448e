package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/manifests/features"
)

const good = `
profiles:
- name: GATEWAY-HTTP
  core: {result: success, statistics: {Passed: 33, Failed: 0, Skipped: 0}}
  extended: {result: success, statistics: {Passed: 20, Failed: 0, Skipped: 0}, unsupportedFeatures: [MeshHTTPRoute, MeshCORS]}
`

func TestConformanceReport_CompleteReportPasses(t *testing.T) {
	if err := read([]byte(good)); err != nil {
		t.Error(err)
	}
}

func TestConformanceReport_GapIsNamed(t *testing.T) {
	for gap, from := range map[string][2]string{
		"HTTPRouteCORS":  {"MeshHTTPRoute,", "HTTPRouteCORS,"},
		"GatewayCore":    {"core: {result: success,", "core: {result: failure, failedTests: [GatewayCore],"},
		"GatewaySkipped": {"core: {result: success,", "core: {result: partial, skippedTests: [GatewaySkipped],"},
		"has no profile": {"profiles:", "profilez:"},
	} {
		err := read([]byte(strings.Replace(good, from[0], from[1], 1)))
		if err == nil || !strings.Contains(err.Error(), gap) {
			t.Errorf("%s: got %v, want an error that names it", gap, err)
		}
	}
}

func TestConformanceReport_PartialRunWritesNone(t *testing.T) {
	whole := config{reports: "r", version: "v1"}
	if got := strings.Join(suites[0].args(whole, suites[0].report(whole)), " "); !strings.Contains(got,
		"--report-output=r/gateway-api.yaml") || strings.Contains(got, "--supported-features") {
		t.Errorf("whole: got %s, want its report, and no list of features", got)
	}
	part := config{core: true}
	if got := strings.Join(suites[0].args(part, suites[0].report(part)), " "); strings.Contains(got,
		"--report-output") || !strings.Contains(got, "--supported-features=Gateway,") {
		t.Errorf("core: got %s, want no report, and a list of features", got)
	}
}

func TestConformanceReport_PublishedCoversClaimedFeatures(t *testing.T) {
	for _, s := range suites {
		name := s.report(config{reports: filepath.Join("..", "reports")})
		if name == "" {
			continue // this suite publishes no report
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := read(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s.profiles == "" {
			continue
		}
		for _, profile := range strings.Split(s.profiles, ",") {
			if !strings.Contains(string(text), "name: "+profile+"\n") {
				t.Errorf("%s: got nothing of %s, want its profile", name, profile)
			}
		}
		for _, feature := range features.Names() {
			// A report lists neither core features nor GRPCRouteNamedRouteRule.
			core := slices.Contains(strings.Split(s.core, ","), string(feature)) || feature == "GRPCRouteNamedRouteRule"
			if !core && !strings.Contains(string(text), "- "+string(feature)+"\n") {
				t.Errorf("%s: %s was not tested, want it", name, feature)
			}
		}
	}
}
