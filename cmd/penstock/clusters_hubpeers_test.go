package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
)

// Gateways of clusters that a hub relays use each other's picker and peer listeners over mTLS, with the certificates that the clusters joined each
// other with: no picker is open. Without them an import has a finding, and no request goes there in cleartext.
func TestHub_GatewaysOfItsMembersUseEachOthersPeerListeners(t *testing.T) {
	t.Parallel()
	dir := credentialsFor(t, filepath.Join(t.TempDir(), "credentials"))
	in := func(name string) string { return filepath.Join(dir, name) }
	h := relayHub(t)
	port, picker, peer := freePort(t), freePort(t), freePort(t)
	files := chatFiles(freePort(t), modelServer(t, sim.Config{Name: "east-1", Model: "llama"}))
	files["policy.yaml"] = "apiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: chat}\nspec: {targetRef: {name: chat}, picker: {failureMode: FailClose}}\n"
	files["pool.yaml"] = exportedPool(exportAnnotation)
	files["set.yaml"] = withPeers(clusterSetYAML("east", h.show(), "- {name: here}\n"), peer)
	east := up(t, files, "--members-listen", "127.0.0.1:0", "--picker", fmt.Sprintf("127.0.0.1:%d", picker),
		"--xds-cert", in("penstock.crt"), "--xds-key", in("penstock.key"), "--xds-client-ca", in("ca.crt"))
	here := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "route.yaml": routeYAML("far", "/", toImport("chat")),
		"set.yaml": clusterSetYAML("here", h.show(), "- {name: east, allow: {addresses: [127.0.0.1/32]}}\n"),
	}, "--members-listen", "127.0.0.1:0")
	h.write("set.yaml", clusterSetYAML("hub", here.show(), east.show()))
	eventually(t, "what is missing is named", func() error {
		if text := here.penstock("status"); !strings.Contains(text, "the ClusterSet here has no certificates of east") || !strings.Contains(text, "with --through-hub where a hub relays it") {
			return fmt.Errorf("%s", text)
		}
		return nil
	})
	if got, err := chat(t.Context(), local(port)); err != nil || got.status < http.StatusInternalServerError {
		t.Errorf("without certificates: %d %s %v", got.status, got.body, err)
	}

	eventually(t, "the exporter has why it is not imported", func() error {
		const want = "NotSupported: here (its picker serves members of its cluster set alone, and the ClusterSet here has no certificates of east)"
		if text := east.penstock("status", "-o", "json"); !strings.Contains(text, want) {
			return fmt.Errorf("no %q in:\n%s", want, text)
		}
		return nil
	})

	for from, to := range map[*site]*site{east: here, here: east} {
		if out, err := to.joinText(from.show(), "--through-hub"); err != nil {
			t.Fatalf("join: %s %v", out, err)
		}
	}
	served := func(what, by string) {
		t.Helper()
		eventually(t, what, func() error {
			got, err := chat(t.Context(), local(port))
			if err != nil || got.status != http.StatusOK || got.header.Get("x-served-by") != "east-1" {
				return fmt.Errorf("%d %s %v; status here:\n%s\nin the other cluster:\n%s", got.status, got.body, err, here.penstock("status"), east.penstock("status"))
			}
			if text := here.penstock("explain", local(port)+"/v1/chat/completions"); !strings.Contains(text, by) {
				return fmt.Errorf("not by %s:\n%s", by, text)
			}
			return nil
		})
	}
	h.write("set.yaml", clusterSetYAML("hub", here.show(), east.show(), memberYAML(t, "north", "", caBundle(t, time.Hour))))
	h.errs.expect(t, "spec.members[2]: it has no peer with an address")
	h.write("set.yaml", clusterSetYAML("hub", here.show(), east.show()))
	served("picks of members", "import-picker/")
	h.stop()
	served("the hub is lost", "import-picker/")
	h.hub()
	east.write("pool.yaml", exportedPool(exportAnnotation+", inference.networking.x-k8s.io/export-mode: ParentMode"))
	served("through the peer listener", fmt.Sprintf("127.0.0.1:%d", peer))

	out, err := here.joinText(east.show())
	if err != nil || !strings.Contains(out, "east is reached at its own address, and not through the hub; if the hub relays it, join it with --through-hub") {
		t.Errorf("join: %s %v", out, err)
	}
	eventually(t, "a member that connects past the hub is named", func() error {
		const want = "member here: it connects to this cluster, which has no address of it and reaches it through the hub"
		if text := east.penstock("status"); !strings.Contains(text, want) {
			return fmt.Errorf("no %q in:\n%s", want, text)
		}
		return nil
	})
}
