package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Requests go to the cluster whose answers begin first, and to another one once that is faster.
func TestLatency_RequestsGoToTheClusterThatAnswersFirst(t *testing.T) {
	t.Parallel()
	east, west := newExportingCluster(t, "east"), newExportingCluster(t, "west")
	east.set(func(c *exportingCluster) { c.delay = time.Second })
	port := freePort(t)
	s := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "policy.yaml": strings.Replace(fmt.Sprintf(leastLoad, "far"), "LeastLoad", "Latency", 1),
		"far.yaml":    routeYAML("far", "/far", "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far}"),
		"import.yaml": "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: far}\nstatus:\n  clusters:\n" + east.entry("EndpointMode", 1) + west.entry("ParentMode", 1),
	})
	answers(t, local(port)+"/far", http.StatusOK)
	by := func() string {
		t.Helper()
		got, err := chat(t.Context(), local(port)+"/far")
		if err != nil || got.status != http.StatusOK {
			t.Fatalf("%d %s %v", got.status, got.body, err)
		}
		return got.header.Get("x-served-by")
	}
	eventually(t, "both clusters are tried", func() error {
		by()
		text := s.metrics()
		for _, name := range []string{"east", "west"} {
			if !strings.Contains(text, fmt.Sprintf(`penstock_selection_first_byte_seconds{cluster=%q,import="default/far"} `, name)) {
				return fmt.Errorf("%s has not answered", name)
			}
		}
		return nil
	})
	for range 15 {
		if got := by(); got != "west" {
			t.Errorf("%s serves, which answers later:\n%s", got, s.penstock("explain", "--last", "2"))
		}
	}
	if text := s.penstock("explain", "--last", "1"); !strings.Contains(text, "Latency") || !strings.Contains(text, "by its answers, round trip") || strings.Contains(text, "cached") {
		t.Errorf("explain shows no choice by latency:\n%s", text)
	}
	west.set(func(c *exportingCluster) { c.delay = 3 * time.Second })
	east.set(func(*exportingCluster) {})
	eventually(t, "requests go to east", func() error {
		if got := by(); got != "east" {
			return fmt.Errorf("%s serves", got)
		}
		return nil
	})
}
