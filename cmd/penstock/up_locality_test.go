package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Requests go to the clusters of the zone, then to those of the region, then to the rest; and never out of the regions that a policy allows.
func TestLocality_NearClustersServeFirst(t *testing.T) {
	t.Parallel()
	clusters := map[string]*exportingCluster{}
	entry := func(name, mode, place string) string {
		clusters[name] = newExportingCluster(t, name)
		return strings.Replace(clusters[name].entry(mode, 1), "    weight:", place+"    weight:", 1)
	}
	port := freePort(t)
	policy := "apiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: far}\nspec:\n  targetRef: {kind: InferencePoolImport, name: far}\n  selection: {policy: Locality%s}\n"
	s := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "policy.yaml": fmt.Sprintf(policy, ""),
		"set.yaml": strings.Replace(clusterSetYAML("here"), "spec:\n", "spec:\n  region: eu\n  zone: eu-a\n", 1),
		"far.yaml": routeYAML("far", "/far", "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far}"),
		"import.yaml": "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: far}\nstatus:\n  clusters:\n" +
			entry("across", "EndpointMode", "    region: us\n    zone: us-a\n") + entry("beside", "EndpointMode", "    region: eu\n    zone: eu-b\n") +
			entry("near", "ParentMode", "    region: eu\n    zone: eu-a\n") + entry("nowhere", "EndpointMode", ""),
	})
	// serve polls until all of some requests are served by these clusters alone, and by each of them; "" is an error.
	serve := func(what string, names ...string) {
		t.Helper()
		eventually(t, what, func() error {
			by := map[string]int{}
			for range 20 {
				got, err := chat(t.Context(), local(port)+"/far")
				if err != nil {
					return err
				}
				name := got.header.Get("x-served-by")
				if got.status != http.StatusOK {
					name = ""
				}
				by[name]++
			}
			sum := 0
			for _, name := range names {
				if by[name] == 0 {
					return fmt.Errorf("%v; status:\n%s", by, s.penstock("status"))
				}
				sum += by[name]
			}
			if sum != 20 {
				return fmt.Errorf("%v", by)
			}
			return nil
		})
	}
	decline := func(c *exportingCluster) { c.declines = http.StatusTooManyRequests }
	serve("the zone serves", "near")
	clusters["near"].server.Close()
	serve("without it the region does", "beside")
	clusters["beside"].set(decline)
	serve("without that, the rest", "across", "nowhere")
	s.write("policy.yaml", fmt.Sprintf(policy, ", within: {regions: [eu]}"))
	serve("within the region, no other cluster", "")
	clusters["beside"].set(func(*exportingCluster) {})
	serve("within the region, what is there", "beside")
	s.write("policy.yaml", fmt.Sprintf(policy, ", within: {regions: [mars]}"))
	eventually(t, "the policy's finding is shown", func() error {
		if out := s.penstock("status"); !strings.Contains(out, "it leaves no cluster of InferencePoolImport default/far") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	for name, c := range clusters {
		if asked, _ := c.counts(); name == "nowhere" && asked == 0 {
			t.Error("a cluster without a region is never asked")
		}
	}
}
