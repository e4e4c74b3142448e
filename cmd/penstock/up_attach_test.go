package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/penstock-project/penstock/picker/modelserver"
	"github.com/penstock-project/penstock/xds/supervisor"
)

// attach starts an Envoy with penstock bootstrap's output and the arguments more.
func (s *site) attach(xds string, more ...string) {
	s.t.Helper()
	s.attachWith([]string{"--xds", xds}, more...)
}

func (s *site) attachWith(flags []string, more ...string) {
	t := s.t
	t.Helper()
	envoy, err := supervisor.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	boot, err := penstock(t,
		append([]string{"bootstrap", "--gateway", "default/gw", "--concurrency", "1", "--admin",
			"unix:" + filepath.Join(s.state, "admin.sock")}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.state, "envoy.yaml")
	if err := os.WriteFile(file, []byte(boot), 0o600); err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(boot, "\n")
	args := strings.Fields(strings.TrimPrefix(first, "# envoy arguments: "))
	output := newTranscript()
	own := exec.Command(envoy.Path, append(append([]string{"-c", file, "--log-level", "warning"}, args...), more...)...)
	own.Stdout, own.Stderr = output, output
	if err := own.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = own.Process.Signal(syscall.SIGKILL)
		_ = own.Wait()
		if t.Failed() {
			t.Logf("Envoy printed:\n%s", output)
		}
	})
}

// docs/metrics-and-alerts.md has an EnvoyFleet whose bootstrap serves Envoys' metrics to
// Prometheus.
func TestEnvoyFleet_DocumentedBootstrapServesEnvoyMetrics(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/metrics-and-alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "metadata: {name: scraped}\n")
	example, _, _ := strings.Cut(after, "```")
	var fleet struct {
		Spec struct{ Bootstrap map[string]any }
	}
	if err := yaml.Unmarshal([]byte(example), &fleet); err != nil || fleet.Spec.Bootstrap == nil {
		t.Fatalf("got no bootstrap, %v, want one in:\n%s", err, example)
	}
	extra, err := json.Marshal(fleet.Spec.Bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	port, metrics := freePort(t), freePort(t)
	s := prepare(t, chatFiles(port, modelServer(t, modelserver.Config{})))
	s.run("serve", "--picker", "127.0.0.1:0")
	s.out.expect(t, "ADS at "+s.ads())
	here := strings.NewReplacer("/run/penstock/admin.sock", filepath.Join(s.state, "admin.sock"), "19001",
		fmt.Sprint(metrics))
	s.attach(s.ads(), "--config-yaml", here.Replace(string(extra)))
	answers(t, local(port), http.StatusOK)
	page := func(path string) reply {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, local(metrics)+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := do(client(), req)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := page("/stats/prometheus"); got.status != http.StatusOK ||
		!strings.Contains(got.body, "envoy_cluster_upstream_rq") {
		t.Errorf(`%d %s, want %d and a text with "envoy_cluster_upstream_rq"`, got.status, got.body, http.StatusOK)
	}
	if got := page("/config_dump"); got.status != http.StatusNotFound {
		t.Errorf("the rest of the admin interface is reachable: %d, want %d", got.status, http.StatusNotFound)
	}
}

// An Envoy started by the commands in serve's help serves while penstock restarts.
func TestBootstrap_OwnEnvoyAttachesAndServesThroughARestart(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	s := prepare(t, chatFiles(port, serverNamed(t, "pod-1")))
	s.run("serve", "--picker", "127.0.0.1:0")
	s.out.expect(t, "ADS at "+s.ads())
	s.attach(s.ads())
	if got := answers(t, local(port), http.StatusOK); got.header.Get("x-served-by") != "pod-1" {
		t.Errorf(`served by %q, want "pod-1"`, got.header.Get("x-served-by"))
	}
	// While penstock is down, Envoy routes without picks. It receives the new route after the
	// restart.
	requests := sendTraffic(t, local(port))
	if code := s.stop(); code != 0 {
		t.Errorf("serve ended with exit status %d, want 0", code)
	}
	requests.flows(t, 20)
	s.write("more.yaml", routeYAML("more", "/more", toPool("chat")))
	s.run("serve", "--picker", "127.0.0.1:0")
	answers(t, local(port)+"/more", http.StatusOK)
	requests.flows(t, 20)
	requests.end(t)
}
