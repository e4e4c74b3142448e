package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
	"github.com/penstock-project/penstock/xds/authority"
)

// aloneFiles are a pool whose picker is another one's Service, as for gateways that Penstock does not configure.
func aloneFiles(servers ...string) map[string]string {
	pool := strings.Replace(poolYAML("chat"), "spec:\n", "spec:\n  endpointPickerRef: {name: epp, port: {number: 9002}}\n", 1)
	return map[string]string{"pool.yaml": pool, "servers.yaml": serversYAML("chat", servers...)}
}

func TestStandAlonePicker_ServesGatewaysThatPenstockDoesNotConfigure(t *testing.T) {
	t.Parallel()
	east, west := modelServer(t, sim.Config{Name: "pod-east"}), modelServer(t, sim.Config{Name: "pod-west"})
	p := startPicker(t, aloneFiles(east, west), "--conformance")
	e := startBareEnvoy(t, bareEnvoy{Pickers: []int{p.port}, Servers: []int{portOf(east), portOf(west)}, TLS: true})
	for _, way := range e.ways() {
		for pod, address := range map[string]string{"pod-east": east, "pod-west": west} {
			got, err := e.chat(way, "test-epp-endpoint-selection", address)
			if err != nil || got.status != http.StatusOK || got.header.Get("x-served-by") != pod {
				t.Errorf("%s to %s: %d from %q: %s %v", way, pod, got.status, got.header.Get("x-served-by"), got.body, err)
			}
			if strings.HasSuffix(way, "override-host") && got.header.Get("x-conformance-test-served-endpoint") == "" {
				t.Errorf("%s: no header with the endpoint that served", way)
			}
		}
		got, err := e.chat(way, "x-subset", west)
		if err != nil || got.header.Get("x-served-by") != "pod-west" {
			t.Errorf("%s, subset: %d from %q %v", way, got.status, got.header.Get("x-served-by"), err)
		}
		got, err = e.chat(way, "x-subset", "192.0.2.1:80")
		if err != nil || got.status != http.StatusServiceUnavailable || got.header.Get("x-penstock-reason") != "subset_empty" {
			t.Errorf("%s, empty subset: %d %q %v", way, got.status, got.header.Get("x-penstock-reason"), err)
		}
	}
	page := p.page()
	for _, want := range []string{
		`penstock_picker_picks_total{pool="default/chat",result="picked"}`, `llm_d_epp_ready_endpoints{name="chat"} 2`, `inference_pool_ready_pods{name="chat"} 2`,
		`llm_d_epp_request_total{fairness_id="",model_name="llama",priority="0",target_model_name="llama"}`, `inference_pool_average_queue_size{name="chat"} 0`,
		`llm_d_epp_scheduler_attempts_total{endpoint_name="chat/127.0.0.1",namespace="default",port="` + fmt.Sprint(portOf(east)) + `",status="success",target_model_name="llama"}`,
		`error_code="503"`, "llm_d_epp_request_duration_seconds_count", "llm_d_epp_scheduler_e2e_duration_seconds_count", "llm_d_epp_request_ttft_seconds_count",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("metrics lack %s:\n%s", want, page)
		}
	}
	eventually(t, "no request is in flight any more", func() error {
		if page := p.page(); !strings.Contains(page, "penstock_picker_open_leases 0\n") {
			return fmt.Errorf("%s", page)
		}
		return nil
	})
}

func TestStandAlonePicker_ClientCADeniesOtherClients(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, err := authority.NewPair(time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(time.Now(), time.Hour, false, "gateway")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"ca.crt": ca.Cert, "tls.crt": pair.Cert, "tls.key": pair.Key} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := modelServer(t, sim.Config{Name: "pod"})
	p := startPicker(t, aloneFiles(server), "--client-ca", filepath.Join(dir, "ca.crt"))
	known := startBareEnvoy(t, bareEnvoy{Pickers: []int{p.port}, Servers: []int{portOf(server)}, TLS: true, ClientCert: filepath.Join(dir, "tls.crt"), ClientKey: filepath.Join(dir, "tls.key")})
	unknown := startBareEnvoy(t, bareEnvoy{Pickers: []int{p.port}, Servers: []int{portOf(server)}, TLS: true})
	if got, err := known.chat("duplex-original-dst"); err != nil || got.status != http.StatusOK {
		t.Errorf("with a certificate: %d %s %v", got.status, got.body, err)
	}
	if got, err := unknown.chat("duplex-original-dst"); err != nil || got.status < 500 {
		t.Errorf("without one: %d %s %v", got.status, got.body, err)
	}
}

func TestStandAlonePicker_NamesAndConfigFileAreThoseOfItsFlags(t *testing.T) {
	t.Parallel()
	east, west := modelServer(t, sim.Config{Name: "pod-east"}), modelServer(t, sim.Config{Name: "pod-west"})
	files := aloneFiles()
	files["servers.yaml"] = strings.Replace(serversYAML("east", east), "app: east", "app: chat, zone: east", 1) + "---\n" +
		strings.Replace(serversYAML("west", west), "app: west", "app: chat, zone: west", 1)
	config := filepath.Join(t.TempDir(), "plugins.yaml")
	write := func(text string) {
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(zonePlugins("east"))
	p := startPicker(t, files, "--config-file", config, "--secure-serving=false", "--destination-endpoint-hint-key", "x-pod",
		"--destination-endpoint-hint-metadata-namespace", "picks", "--destination-endpoint-subset-metadata-namespace", "subset")
	e := startBareEnvoy(t, bareEnvoy{Pickers: []int{p.port}, Servers: []int{portOf(east), portOf(west)}, Key: "x-pod", Namespace: "picks", Subset: "subset"})
	servedBy := func(pod string) {
		t.Helper()
		for _, way := range e.ways() {
			eventually(t, way+" goes to "+pod, func() error {
				got, err := e.chat(way)
				if err != nil || got.header.Get("x-served-by") != pod {
					return fmt.Errorf("%d from %q: %s %w", got.status, got.header.Get("x-served-by"), got.body, err)
				}
				return nil
			})
		}
	}
	servedBy("pod-east")
	if got, err := e.chat("duplex-original-dst", "x-subset", west); err != nil || got.status != http.StatusServiceUnavailable {
		t.Errorf("a subset without the only server of the zone: %d %v", got.status, err)
	}
	write(zonePlugins("west"))
	servedBy("pod-west")
	write(strings.Replace(zonePlugins("east"), "queue-scorer", "unknown-scorer", 1))
	p.errs.expect(t, "the last valid one stays")
	servedBy("pod-west")
}

func TestStandAlonePicker_GoesOnPickingWhileItDrains(t *testing.T) {
	t.Parallel()
	server := modelServer(t, sim.Config{Name: "pod"})
	p := startPicker(t, aloneFiles(server), "--drain-timeout", "1h")
	e := startBareEnvoy(t, bareEnvoy{Pickers: []int{p.port}, Servers: []int{portOf(server)}, TLS: true})
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.isServing(false)
	if got, err := e.chat("gateway-original-dst"); err != nil || got.status != http.StatusOK {
		t.Errorf("while draining: %d %s %v", got.status, got.body, err)
	}
	_ = p.cmd.Process.Kill()
}

func TestStandAlonePicker_FlagsNameWhatToWriteInstead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, tt := range []struct{ args, want string }{
		{"--lora-info-metric my:lora", "spec.picker.metrics.engine"},
		{"--metrics-cert-dir /certs", "NetworkPolicy"},
		{"--config-file a --config-text b", "exclude each other"},
		{"--config-text {}", "kind"},
		{"--pool-name a/b/c", "NAMESPACE/NAME"},
		{"--pool-name a --endpoint-selector app=x --endpoint-target-ports 80", "exclude each other"},
		{"--endpoint-selector app=x", "require each other"},
		{"--endpoint-selector app!=x --endpoint-target-ports 80", "KEY=VALUE"},
		{"--endpoint-selector app=x --endpoint-target-ports 0", "from 1 to 65535"},
		{"--tls-min-version VersionTLS10", "VersionTLS12 or VersionTLS13"},
		{"--secure-serving=false --client-ca x", "requires --secure-serving"},
		{"--cert-path " + dir, "--cert-path"},
		{"--peers 192.0.2.1:1", "--peers-listen"},
		{"--bind-address localhost", "IP address"},
		{"--drain-timeout -1s", "0 or more"},
		{"--pool-group example.com", "inference.networking.k8s.io"},
		{"--zap-encoder xml", "json or console"},
	} {
		args := append([]string{"picker", "-f", dir}, strings.Fields(tt.args)...)
		if _, err := penstock(t, args...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want %q", tt.args, err, tt.want)
		}
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--pool-name", "x"}, "picker"}, {[]string{"--endpoint-selector=a=b"}, "picker"}, {[]string{"--help"}, "--help"}, {[]string{"status"}, "status"}, {nil, ""},
	} {
		if got := strings.Join(append(withCommand(newRoot(), tt.args), ""), " "); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%q: %q", tt.args, got)
		}
	}
}
