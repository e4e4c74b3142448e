package main

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
)

// Whatever sends requests to other clusters: Penstock counts them by cluster, and explain --why has what became of one at each cluster that was
// asked. So it is where no picker of ours sees them.
func TestExplain_WhyShowsEachClusterThatWasAsked(t *testing.T) {
	t.Parallel()
	east, west, alone := newExportingCluster(t, "east"), newExportingCluster(t, "west"), newExportingCluster(t, "alone")
	port := freePort(t)
	of := func(name, entries string) string {
		return "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: " + name + "}\nstatus:\n  clusters:\n" + entries
	}
	s := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "far.yaml": routeYAML("far", "/far", toImport("far")), "one.yaml": routeYAML("one", "/one", toImport("one")), "empty.yaml": routeYAML("empty", "/empty", toPool("empty")), "both.yaml": routeYAML("both", "/both", toPool("both")),
		"import.yaml": of("far", east.entry("EndpointMode", 1)+west.entry("ParentMode", 1)) + "---\n" + of("one", alone.entry("ParentMode", 1)),
		"order.yaml":  "apiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: far}\nspec:\n  targetRef: {kind: InferencePoolImport, name: far}\n  selection: {policy: Priority, order: [east, west]}\n",
		"pool.yaml": poolYAML("empty") + "---\napiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: empty}\nspec:\n  targetRef: {name: empty}\n  spill: [{kind: InferencePoolImport, name: one}]\n---\n" +
			poolYAML("both") + "---\napiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: both}\nspec:\n  targetRef: {name: both}\n  spill: [{kind: InferencePoolImport, name: far}]\n",
	})
	// why sends a request, and waits until the explanation has these lines, in their order.
	why := func(path, by string, lines ...string) {
		t.Helper()
		var id string
		eventually(t, path+" is served by "+by, func() error {
			got, err := chat(t.Context(), local(port)+path)
			if id = got.header.Get("x-request-id"); err != nil || got.status != http.StatusOK || got.header.Get("x-served-by") != by {
				return fmt.Errorf("%d of %q: %v", got.status, got.header.Get("x-served-by"), err)
			}
			return nil
		})
		eventually(t, "it is explained", func() error {
			out, err := penstock(t, "explain", "--why", id, "-f", s.dir, "--state", s.state)
			if err != nil {
				return err
			}
			rest := out
			for _, line := range lines {
				at := regexp.MustCompile("(?m)^" + line + "$").FindStringIndex(rest)
				if at == nil {
					return fmt.Errorf("no line %q in its place:\n%s", line, out)
				}
				rest = rest[at[1]:]
			}
			if n := strings.Count(out, "\nsent ") + strings.Count("\n"+out[:min(len(out), 5)], "\nsent "); n != strings.Count(strings.Join(lines, "\n"), "sent ") {
				return fmt.Errorf("%d clusters were asked:\n%s", n, out)
			}
			return nil
		})
	}
	const ended = `  outcome      ended after \d+\.\d{3} s, status 200, served by 127\.0\.0\.1:\d+, first byte after \d+\.\d{3} s`
	// A spill goes to the clusters of an import in their order, and on where one declines, as other requests do.
	for range 6 {
		why("/both", "east", `pick .*, pool default/both, .*`, `  choice       spilled: import default/far .*`, `pick .*, cluster east of import default/far, .*`, `  choice       its own picker names 127\.0\.0\.1:\d+`, ended)
	}
	why("/far", "east", `pick .*, cluster east of import default/far, .*`, `  choice       its own picker names 127\.0\.0\.1:\d+`, ended)
	east.set(func(c *exportingCluster) { c.declines = typev3.StatusCode_TooManyRequests })
	why("/far", "west", `sent .* to cluster east of import default/far`, `  declined .*`, `  details      .+`, `  outcome      ended after \d+\.\d{3} s, status 429`, `sent .* to cluster west of import default/far`, ended)
	for range 6 {
		why("/both", "west", `sent .* to cluster east of import default/far`, `  declined .*`, `  details      .+`, `  outcome      ended after \d+\.\d{3} s, status 429`, `sent .* to cluster west of import default/far`, ended)
	}
	why("/one", "alone", `sent .* to cluster alone of import default/one`, ended)
	why("/empty", "alone", `pick .*`, `  choice       spilled: import default/one .*`, `sent .* to cluster alone of import default/one, spilled by a pool`, ended)
	for series, least := range map[string]int{
		`ended_requests_total{cluster="east",import="default/far",outcome="served"}`: 1, `ended_requests_total{cluster="east",import="default/far",outcome="declined"}`: 1,
		`ended_requests_total{cluster="west",import="default/far",outcome="served"}`: 1, `ended_requests_total{cluster="alone",import="default/one",outcome="served"}`: 2,
		`spilled_requests_total{cluster="east",import="default/far"}`: 6, `spilled_requests_total{cluster="west",import="default/far"}`: 6, `spilled_requests_total{cluster="alone",import="default/one"}`: 1, `response_bytes_total{cluster="west",import="default/far"}`: 1,
	} {
		if n := s.series("penstock_import_" + series + " "); n < least {
			t.Errorf("%s is %d, want at least %d", series, n, least)
		}
	}
}
