package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// In ParentMode, requests go through the exporter's Gateway: its picker and pods are unreachable
// here.
func TestClusterSet_ParentModeServesThroughTheGatewayOfTheOtherCluster(t *testing.T) {
	t.Parallel()
	port, gateway := freePort(t), freePort(t)
	eastFiles := chatFiles(gateway, serverNamed(t, "east-1"))
	route := eastFiles["route.yaml"]
	delete(eastFiles, "route.yaml")
	eastFiles["set.yaml"] = clusterSetYAML("east")
	eastFiles["pool.yaml"] = exportedPool(exportAnnotation + ", inference.networking.x-k8s.io/export-mode: ParentMode")
	east := up(t, eastFiles, "--members-listen", "127.0.0.1:0")
	here := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "set.yaml": clusterSetYAML("here", east.show()),
		"route.yaml": routeYAML("far", "/", toImport("chat")),
	}, "--members-listen", "127.0.0.1:0")
	east.write("set.yaml", clusterSetYAML("east", here.show()))
	eventually(t, "a pool without a Gateway is not exported", func() error {
		if text := east.penstock("status"); !strings.Contains(text, "no Gateway routes to it") ||
			!strings.Contains(text, "name the pool in an HTTPRoute") || !strings.Contains(text, "NoAddress") {
			return fmt.Errorf("status: got %s, want NoAddress, as no Gateway routes to it", text)
		}
		return nil
	})
	served := func(what string, want bool) {
		t.Helper()
		eventually(t, what, func() error {
			got, err := chat(t.Context(), local(port))
			if (got.status == http.StatusOK && got.header.Get("x-served-by") == "east-1") != want {
				return fmt.Errorf("got %d %s %v, want 200 from east-1: %t; status here:\n%s\nin the other cluster:\n%s",
					got.status, got.body, err, want, here.penstock("status"), east.penstock("status"))
			}
			return nil
		})
	}
	served("not exported", false)
	east.write("route.yaml", route)
	served("through the other cluster's Gateway", true)
	if text := here.penstock("explain", local(port)+"/v1/chat/completions"); !strings.Contains(text,
		fmt.Sprintf("127.0.0.1:%d", gateway)) {
		t.Errorf("explain: %s, want a text with %q", text, fmt.Sprintf("127.0.0.1:%d", gateway))
	}
	east.write("pool.yaml", exportedPool(exportAnnotation))
	eventually(t, "in EndpointMode the pod itself is an endpoint", func() error {
		if text := here.penstock("explain", local(port)+"/v1/chat/completions"); strings.Contains(text,
			fmt.Sprintf("127.0.0.1:%d", gateway)) {
			return fmt.Errorf("explain: got %s, want no port %d of the gateway", text, gateway)
		}
		return nil
	})
	served("in EndpointMode", true)
	east.write("pool.yaml", eastFiles["pool.yaml"])
	served("in ParentMode again", true)
	east.remove("route.yaml")
	served("no Gateway routes to it any more", false)
}
