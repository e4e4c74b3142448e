package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/picker/modelserver"
	"github.com/penstock-project/penstock/xds/server"
)

func TestGateway_PortConflictIsReportedAndTheFirstServes(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	s := up(t, chatFiles(port, serverNamed(t, "pod-1")))
	answers(t, local(port), http.StatusOK)
	requests := sendTraffic(t, local(port))
	s.write("second.yaml", gatewayYAML("also", port))
	s.errs.expect(t,
		fmt.Sprintf(
			"second.yaml:7: Gateway default/also spec.listeners: port %d is already used by Gateway default/gw; "+
				"choose another port", port))
	requests.flows(t, 10)
	if out := s.penstock("status"); !strings.Contains(out, "AddressNotUsable") {
		t.Errorf("status: got\n%s\nwant AddressNotUsable", out)
	}
	other := freePort(t)
	s.write("second.yaml", gatewayYAML("also", other))
	s.out.expect(t, fmt.Sprintf("Gateway default/also serves at %s", local(other)))
	s.errs.expect(t, "all errors and warnings are resolved")
	requests.end(t)
}

func TestEnvoy_RestartedAfterACrash(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	s := up(t, chatFiles(port, serverNamed(t, "pod-1")))
	answers(t, local(port), http.StatusOK)
	pids := s.envoys()
	if len(pids) != 1 {
		t.Fatalf("want one Envoy, have %v", pids)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.errs.expect(t, "Envoy died and will be restarted")
	answers(t, local(port), http.StatusOK)
	eventually(t, "status counts one proxy, which has everything", func() error {
		var doc statusJSON
		if err := json.Unmarshal([]byte(s.penstock("status", "-o", "json")), &doc); err != nil {
			return err
		}
		if len(doc.Proxies) != 1 || !doc.Proxies[0].InSync {
			return fmt.Errorf("proxies: got %+v, want one in sync", doc.Proxies)
		}
		return nil
	})
}

func TestShutdown_RequestsEndAndNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	s := up(t, chatFiles(port, modelServer(t, modelserver.Config{Name: "pod-1", InterTokenLatency: 20e6})))
	answers(t, local(port), http.StatusOK)
	pids := s.envoys()

	began, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		ended <- stream(t.Context(), local(port), strings.Repeat("word ", 60), func(string) {
			select {
			case began <- struct{}{}:
			default:
			}
		})
	}()
	<-began
	if code := s.stop(); code != 0 {
		t.Errorf("exit status %d, want 0", code)
	}
	if err := <-ended; err != nil {
		t.Errorf("a streamed answer was cut by a clean end: %v", err)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("Envoy %d is still there: %v, want %v", pid, err, syscall.ESRCH)
		}
	}
	if got, err := chat(t.Context(), local(port)); err == nil {
		t.Errorf("got %+v, want no answer", got)
	}
	out, err := penstock(t, "status", "-f", s.dir, "--state", s.state)
	if err != nil || !strings.Contains(out, "penstock is not running") || !strings.Contains(out, "default/chat") {
		t.Errorf(`%v: %s, want a text with "penstock is not running" and a text with "default/chat"`, err, out)
	}
}

func TestStateFolder_SecondProcessFails(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	s := up(t, chatFiles(port, modelServer(t, modelserver.Config{})))
	second := exec.Command("penstock", "up", "-f", s.dir, "--state", s.state)
	second.Env = s.cmd.Env
	out, err := second.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another penstock serves this state folder already") ||
		!strings.Contains(string(out), "--state") {
		t.Errorf("got %v: %s, want that another penstock serves this state folder, and --state", err, out)
	}
	answers(t, local(port), http.StatusOK)
}

func TestHTTPPages_ServeHealthMetricsStatusAndPicks(t *testing.T) {
	t.Parallel()
	port, admin := freePort(t), freePort(t)
	s := up(t, chatFiles(port, serverNamed(t, "pod-1")), "--http", fmt.Sprintf("127.0.0.1:%d", admin))
	answers(t, local(port), http.StatusOK)
	page := func(path string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, local(admin)+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := do(client(), req)
		if err != nil || got.status != http.StatusOK {
			t.Fatalf("%s: %d %s %v, want %d", path, got.status, got.body, err, http.StatusOK)
		}
		return got.body
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if got := page(path); got != "ok\n" {
			t.Errorf("%s: %q, want %q", path, got, "ok\n")
		}
	}
	eventually(t, "the pick is counted", func() error {
		for _, want := range []string{"penstock_picker_", "penstock_xds_streams 1\n",
			"penstock_xds_streams_rejecting 0\n", "penstock_xds_streams_behind 0\n", "go_goroutines",
			`pool="default/chat"`,
			`penstock_findings{severity="error"} 0`, "penstock_change_seconds_count "} {
			if text := page("/metrics"); !strings.Contains(text, want) {
				return fmt.Errorf("/metrics: got\n%s\nwant %s", text, want)
			}
		}
		return nil
	})
	metrics := knownMetrics(t)
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (penstock_\S+) (\S+)$`).
		FindAllStringSubmatch(page("/metrics"), -1) {
		if !slices.ContainsFunc(metrics, func(row metricRow) bool { return row.name == m[1] && row.typ == m[2] }) {
			t.Errorf("docs/reference/metrics.md does not list the %s %s", m[2], m[1])
		}
	}
	s.write("broken.yaml",
		"apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: broken}\nspec: {rules: 3}\n")
	eventually(t, "what does not take effect is counted", func() error {
		if text := page("/metrics"); !strings.Contains(text, `penstock_findings{severity="error"} 1`) {
			return fmt.Errorf("/metrics: got\n%s\nwant one finding of severity error", text)
		}
		return nil
	})
	var doc status.Document
	if err := json.Unmarshal([]byte(page("/status")), &doc); err != nil || len(doc.Objects) == 0 {
		t.Errorf("/status: got %v, %d objects, want some", err, len(doc.Objects))
	}
	var proxies []server.ProxyStatus
	if err := json.Unmarshal([]byte(page("/proxies")), &proxies); err != nil || len(proxies) != 1 {
		t.Errorf("/proxies: %v %+v, want 1 of them", err, proxies)
	}
	if picks := page("/debug/picks"); !strings.Contains(picks, "default/chat") {
		t.Errorf(`/debug/picks: %s, want a text with "default/chat"`, picks)
	}

	url := local(port) + "/v1/chat/completions"
	out := s.penstock("explain", "-X", "POST", url)
	for _, want := range []string{"HTTPRoute default/chat, rule 0", "100.0% of requests to InferencePool default/chat",
		"strategy load", "127.0.0.1:", "Accepted=True"} {
		if !strings.Contains(out, want) {
			t.Errorf("explain: got\n%s\nwant %q", out, want)
		}
	}
	if out := s.penstock("status"); !strings.Contains(out, "is in sync") {
		t.Errorf(`status: %s, want a text with "is in sync"`, out)
	}
}

// Every pod in Kubernetes can reach the address with /metrics, so it shows no objects.
func TestHTTPPages_MetricsAddressShowsNoObject(t *testing.T) {
	t.Parallel()
	port, open, admin := freePort(t), freePort(t), freePort(t)
	up(t, chatFiles(port, modelServer(t, modelserver.Config{})), "--http", fmt.Sprintf("0.0.0.0:%d", open), "--admin",
		fmt.Sprintf("127.0.0.1:%d", admin))
	page := func(at int, path string) reply {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, local(at)+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := do(client(), req)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
		for _, at := range []int{open, admin} {
			if got := page(at, path); got.status != http.StatusOK {
				t.Errorf("%s: %d %s, want %d", path, got.status, got.body, http.StatusOK)
			}
		}
	}
	for _, path := range []string{"/status", "/proxies", "/explain?url=" + local(port),
		"/debug/picks?pool=default/chat", "/debug/pprof/", "/"} {
		if got := page(open, path); got.status != http.StatusNotFound || strings.Contains(got.body, "default") {
			t.Errorf("%s at the open address: got %d %s, want 404", path, got.status, got.body)
		}
	}

	at := fmt.Sprintf("127.0.0.1:%d", admin)
	if out, err := penstock(t, "status", "--http", at); err != nil ||
		!strings.Contains(out, "default/chat   gw       True") || !strings.Contains(out, "is in sync") {
		t.Errorf("status: got %v\n%s\nwant Gateway gw, True and in sync", err, out)
	}
	if out, err := penstock(t, "explain", "--http", at, local(port)+"/v1/models"); err != nil ||
		!strings.Contains(out, "strategy load") {
		t.Errorf("explain: got %v\n%s\nwant strategy load", err, out)
	}
	if out, err := penstock(t, "status", "--http", fmt.Sprintf("127.0.0.1:%d", open)); err == nil ||
		!strings.Contains(err.Error(), "--admin") {
		t.Errorf("status at the wrong address: got %v\n%s\nwant --admin", err, out)
	}
}

func TestGateway_FolderWithoutOneWaits(t *testing.T) {
	t.Parallel()
	s := prepare(t, nil)
	s.start()
	s.out.expect(t, s.dir+" has no Gateway for Penstock yet: waiting for one")
	port := freePort(t)
	s.write("all.yaml", gatewayYAML("gw", port)+"---\n"+routeYAML("chat", "/", toPool("chat"))+"---\n"+poolYAML("chat")+
		"---\n"+serversYAML("chat", modelServer(t, modelserver.Config{})))
	s.out.expect(t, "Gateway default/gw serves at "+local(port))
	answers(t, local(port), http.StatusOK)
	pids := s.envoys()
	s.remove("all.yaml")
	eventually(t, "the Envoy has gone", func() error {
		if err := syscall.Kill(pids[0], 0); err == nil {
			return errors.New("it is there")
		}
		return nil
	})
}

func TestGateway_PortInUseIsReportedUntilFree(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	files := map[string]string{"gateway.yaml": fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  addresses: [{value: 127.0.0.1}]
  listeners: [{name: http, port: %d, protocol: HTTP}]
`, port)}
	first := up(t, files)
	first.out.expect(t, fmt.Sprintf("http://127.0.0.1:%d", port))
	second := prepare(t, files)
	second.start()
	second.errs.expect(t, "Address already in use")
	reports := func(rejected bool) {
		t.Helper()
		eventually(t, fmt.Sprintf("the status reports that Envoy rejects the listener: %t", rejected), func() error {
			if out := second.penstock("status"); rejected != strings.Contains(out,
				fmt.Sprintf("cannot bind '127.0.0.1:%d': Address already in use", port)) {
				return errors.New(out)
			}
			return nil
		})
	}
	reports(true)
	first.stop()
	second.out.expect(t, fmt.Sprintf("http://127.0.0.1:%d", port))
	reports(false)
}
