package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
)

// zoneServers are model servers of a pool with a label for their zone.
func zoneServers(pool, zone, address string) string {
	return strings.Replace(serversYAML(pool+"-"+zone, address), "app: "+pool+"-"+zone, "app: "+pool+", zone: "+zone, 1) + "---\n"
}

// subsetPolicy is a PoolPolicy for routes that name it.
func subsetPolicy(zone string) string {
	return fmt.Sprintf("apiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: %s}\nspec: {subset: {matchLabels: {zone: %s}}}\n---\n", zone, zone)
}

// within is a backendRef to a pool with a subset.
func within(pool, policy string, weight int) string {
	return fmt.Sprintf("{group: inference.networking.k8s.io, kind: InferencePool, name: %s, weight: %d, filters: [{type: ExtensionRef, extensionRef: {group: penstock.dev, kind: PoolPolicy, name: %s}}]}", pool, weight, policy)
}

func TestSubset_RequestsReachItsEndpointsAlone(t *testing.T) {
	t.Parallel()
	east, west := modelServer(t, sim.Config{Name: "pod-east"}), modelServer(t, sim.Config{Name: "pod-west"})
	servers := zoneServers("chat", "east", east) + zoneServers("chat", "west", west)
	external := aloneFiles()
	external["servers.yaml"] = servers
	p := startPicker(t, external, otherNames...)
	for _, c := range []struct{ name, pool, policy string }{
		{"own picker", poolYAML("chat"), "picker: {failureMode: FailOpen}"},
		{"own picker without bodies", poolYAML("chat"), "picker: {strategy: round-robin}"},
		{"own picker that picks again", poolYAML("chat"), "picker: {failureMode: FailClose}"},
		{"external picker", strings.Replace(poolYAML("chat"), "spec:\n", fmt.Sprintf("spec:\n  endpointPickerRef: {name: epp, port: {number: %d}, failureMode: FailOpen}\n", p.port), 1) + pickerService(p.port), otherNamesField},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			port := freePort(t)
			files := chatFiles(port)
			files["pool.yaml"], files["servers.yaml"] = c.pool, servers
			policy := "apiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: chat}\nspec:\n  targetRef: {name: chat}\n  " + c.policy + "\n"
			files["policies.yaml"] = subsetPolicy("east") + subsetPolicy("west") + subsetPolicy("north") + policy
			files["east.yaml"] = routeYAML("east", "/east", within("chat", "east", 1))
			files["both.yaml"] = routeYAML("both", "/both", within("chat", "east", 1)+", "+within("chat", "west", 1))
			files["north.yaml"] = routeYAML("north", "/north", within("chat", "north", 1))
			s := up(t, files)
			for range 10 {
				if by := answers(t, local(port)+"/east", http.StatusOK).header.Get("x-served-by"); by != "pod-east" {
					t.Errorf("zone east: from %q", by)
				}
			}
			served := map[string]int{}
			for range 40 {
				served[answers(t, local(port)+"/both", http.StatusOK).header.Get("x-served-by")]++
			}
			if served["pod-east"] == 0 || served["pod-west"] == 0 { // 1 in 500 billion
				t.Errorf("50:50 went to %v", served)
			}
			got := answers(t, local(port)+"/north", http.StatusServiceUnavailable)
			if reason := got.header.Get("x-penstock-reason"); reason != "subset_empty" {
				t.Errorf("a subset without endpoints: %q %s", reason, got.body)
			}
			// The subset follows the labels of endpoints.
			s.write("servers.yaml", zoneServers("chat", "east", east)+zoneServers("chat", "north", west))
			external["servers.yaml"] = servers
			eventually(t, "zone north has an endpoint", func() error {
				got, err := chat(t.Context(), local(port)+"/north")
				if err != nil || got.header.Get("x-served-by") != "pod-west" {
					return fmt.Errorf("%d from %q: %s %w", got.status, got.header.Get("x-served-by"), got.body, err)
				}
				return nil
			})
			// So does the pool's own subset, with that of the route.
			s.write("policies.yaml", files["policies.yaml"]+"  subset: {matchExpressions: [{key: zone, operator: In, values: [east, south]}]}\n")
			answers(t, local(port)+"/north", http.StatusServiceUnavailable)
			for range 5 {
				if by := answers(t, local(port), http.StatusOK).header.Get("x-served-by"); by != "pod-east" {
					t.Errorf("the pool's subset: from %q", by)
				}
			}
			if c.policy == otherNamesField {
				return
			}
			if out := s.penstock("explain", local(port)+"/east/v1/chat/completions"); !strings.Contains(out, "zone in (east,south),zone=east") {
				t.Errorf("explain:\n%s", out)
			}
		})
	}
}

func TestSubset_SpillsAndNeverReachesOtherEndpoints(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	files := chatFiles(port)
	files["servers.yaml"] = zoneServers("chat", "west", modelServer(t, sim.Config{Name: "pod-west"}))
	zoned := aloneFiles()
	zoned["servers.yaml"] = files["servers.yaml"] + zoneServers("chat", "east", modelServer(t, sim.Config{Name: "pod-east"}))
	files["spare.yaml"] = poolYAML("spare") + "---\n" + serversYAML("spare", modelServer(t, sim.Config{Name: "spare-1"}))
	files["east.yaml"] = routeYAML("east", "/east", within("chat", "east", 1))
	// FailOpen: a request without a pick goes to any endpoint of the pool, but for those with a subset.
	policy := "apiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: chat}\nspec:\n  targetRef: {name: chat}\n  picker: {failureMode: FailOpen}\n"
	files["policies.yaml"] = subsetPolicy("east") + policy + "  spill: [{name: spare}]\n"
	s := up(t, files)
	for range 5 {
		if by := answers(t, local(port)+"/east", http.StatusOK).header.Get("x-served-by"); by != "spare-1" {
			t.Errorf("zone east has no endpoint: from %q", by)
		}
		if by := answers(t, local(port), http.StatusOK).header.Get("x-served-by"); by != "pod-west" {
			t.Errorf("without a subset: from %q", by)
		}
	}
	// Behind a hop of its own, with an external picker that picks among all endpoints that it is not forbidden: one in zone east at first.
	p := startPicker(t, zoned, otherNames...)
	external := strings.Replace(poolYAML("chat"), "spec:\n", fmt.Sprintf("spec:\n  endpointPickerRef: {name: epp, port: {number: %d}, failureMode: FailOpen}\n", p.port), 1) + pickerService(p.port)
	s.write("pool.yaml", external)
	s.write("servers.yaml", zoned["servers.yaml"])
	spilling := subsetPolicy("east") + strings.Replace(policy, "  picker: {failureMode: FailOpen}", "  "+otherNamesField, 1) + "  spill: [{name: spare}]\n"
	s.write("policies.yaml", spilling)
	goes := func(to string) {
		t.Helper()
		eventually(t, "zone east is served by "+to, func() error {
			for range 5 {
				if got, err := chat(t.Context(), local(port)+"/east"); err != nil || got.header.Get("x-served-by") != to {
					return fmt.Errorf("%d from %q: %s %w", got.status, got.header.Get("x-served-by"), got.body, err)
				}
			}
			return nil
		})
	}
	goes("pod-east")
	s.write("servers.yaml", files["servers.yaml"])
	goes("spare-1")
	s.write("servers.yaml", zoned["servers.yaml"])
	goes("pod-east")
	// A picker that cannot be reached names no endpoint.
	gone := freePort(t)
	s.write("pool.yaml", strings.Replace(poolYAML("chat"), "spec:\n", fmt.Sprintf("spec:\n  endpointPickerRef: {name: epp, port: {number: %d}, failureMode: FailOpen}\n", gone), 1)+pickerService(gone))
	s.write("policies.yaml", subsetPolicy("east"))
	answers(t, local(port)+"/east", http.StatusServiceUnavailable)
	for range 5 {
		if by := answers(t, local(port), http.StatusOK).header.Get("x-served-by"); !strings.HasPrefix(by, "pod-") {
			t.Errorf("without a subset and without a picker: from %q", by)
		}
	}
	answers(t, local(port)+"/east", http.StatusServiceUnavailable)
	// Mistakes are conditions of the route and of the policy.
	s.write("east.yaml", routeYAML("east", "/east", within("chat", "unknown", 1)))
	answers(t, local(port)+"/east", http.StatusInternalServerError)
	s.write("policies.yaml", strings.Replace(subsetPolicy("east"), "matchLabels: {zone: east}", "matchExpressions: [{key: zone, operator: Is, values: [east]}]", 1))
	eventually(t, "the findings are there", func() error {
		out := s.penstock("status")
		for _, want := range []string{"PoolPolicy default/unknown does not exist", "InvalidSubset"} {
			if !strings.Contains(out, want) {
				return fmt.Errorf("no %q in\n%s", want, out)
			}
		}
		return nil
	})
}
