package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
)

// The only exporter of a pool stops its Penstock, while its model servers keep running. Until its
// own health check of the picker fails, Envoy would answer hundreds of requests with 503.
func TestClusterSet_LostPickerIsPassedByAtOnce(t *testing.T) {
	t.Parallel()
	const few = 100 // how many of the sequential requests may fail
	dir := credentialsFor(t, filepath.Join(t.TempDir(), "credentials"))
	in := func(name string) string { return filepath.Join(dir, name) }
	port, picker, members, peer, metrics := freePort(t), freePort(t), freePort(t), freePort(t), freePort(t)
	files := chatFiles(freePort(t), serverNamed(t, "east-1"))
	files["set.yaml"], files["pool.yaml"] = withPeers(clusterSetYAML("east"), peer), exportedPool(exportAnnotation)
	east := up(t, files, "--members-listen", fmt.Sprintf("127.0.0.1:%d", members), "--picker",
		fmt.Sprintf("127.0.0.1:%d", picker), "--http", fmt.Sprintf("127.0.0.1:%d", metrics),
		"--xds-cert", in("penstock.crt"), "--xds-key", in("penstock.key"), "--xds-client-ca", in("ca.crt"))
	here := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "set.yaml": clusterSetYAML("here", east.show()),
		"route.yaml": routeYAML("far", "/", toImport("chat")),
	}, "--members-listen", "127.0.0.1:0")
	east.write("set.yaml", withPeers(clusterSetYAML("east", here.show()), peer))
	picks := func() float64 {
		return metric(t, metrics, `penstock_picker_picks_total{pool="default/chat",result="picked"}`)
	}
	picked := func() {
		t.Helper()
		eventually(t, "the picker of the other cluster picks", func() error {
			if got, err := chat(t.Context(), local(port)); err != nil || got.status != http.StatusOK || picks() == 0 {
				return fmt.Errorf("got %d %s %v, %v picks, want 200 and some; status here:\n%s\nin the other "+
					"cluster:\n%s", got.status, got.body, err, picks(), here.penstock("status"),
					east.penstock("status"))
			}
			return nil
		})
	}
	picked()
	here.errs.expect(t, "external picker answered its probe")

	requests := sendTraffic(t, local(port))
	requests.flows(t, 20)
	east.stop()
	here.errs.expect(t, "lost=true")
	answers(t, local(port), http.StatusOK)
	requests.flows(t, 2*few)
	requests.endWithFew(t, few)
	east.start()
	east.out.expect(t, "serves at")
	picked()
}
