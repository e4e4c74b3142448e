package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// With failureMode FailOpen, servers that the remote picker has named serve while it names none; with FailClose none does, and of several
// clusters another one is asked first.
func TestInferencePoolImport_FailsOpenWhereOurPickerRelays(t *testing.T) {
	t.Parallel()
	open, closed, spare := newExportingCluster(t, "open"), newExportingCluster(t, "closed"), newExportingCluster(t, "spare")
	port := freePort(t)
	of := func(name, mode string, entries ...string) string {
		return "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: InferencePoolImport\nmetadata: {name: " + name + "}\nstatus:\n  clusters:\n" +
			strings.ReplaceAll(strings.Join(entries, ""), "    weight:", "    failureMode: "+mode+"\n    weight:")
	}
	s := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "open.yaml": routeYAML("open", "/open", toImport("open")), "closed.yaml": routeYAML("closed", "/closed", toImport("closed")), "both.yaml": routeYAML("both", "/both", toImport("both")),
		"import.yaml": of("open", "FailOpen", open.entry("EndpointMode", 1)) + "---\n" + of("closed", "FailClose", closed.entry("EndpointMode", 1)) + "---\n" + of("both", "FailOpen", open.entry("EndpointMode", 1), spare.entry("EndpointMode", 1)),
		"order.yaml":  "apiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: both}\nspec:\n  targetRef: {kind: InferencePoolImport, name: both}\n  selection: {policy: Priority, order: [open, spare]}\n",
	})
	send := func(path string) string {
		got, err := chat(t.Context(), local(port)+path)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(got.status, " ", got.header.Get("x-served-by"), got.header.Get("x-penstock-reason"))
	}
	for path, want := range map[string]string{"/open": "200 open", "/closed": "200 closed", "/both": "200 open"} {
		eventually(t, path+" is served", func() error {
			if got := send(path); got != want {
				return fmt.Errorf("%s", got)
			}
			return nil
		})
	}
	open.pickers.Stop()
	closed.pickers.Stop()
	for path, want := range map[string]string{"/open": "200 open", "/closed": "503 relay_failed", "/both": "200 spare"} {
		for i := range 5 {
			if got := send(path); got != want {
				t.Errorf("request %d of %s without a picker: %s, want %s", i, path, got, want)
			}
		}
	}
	spare.pickers.Stop()
	for i := range 5 { // once no cluster has a picker, those that fail open serve
		if got := send("/both"); got != "200 open" && got != "200 spare" {
			t.Errorf("request %d without any picker: %s", i, got)
		}
	}
	got, err := chat(t.Context(), local(port)+"/open")
	if err != nil || got.status != http.StatusOK {
		t.Fatal(got.status, err)
	}
	if out := s.penstock("explain", "--why", got.header.Get("x-request-id")); !strings.Contains(out, "its own picker names none, and it fails open: 127.0.0.1:") || !strings.Contains(out, "connection refused") {
		t.Errorf("%s", out)
	}
}
