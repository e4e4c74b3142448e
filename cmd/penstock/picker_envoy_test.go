package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/xds/authority"
)

// aloneFiles are a pool with an endpointPickerRef, for Gateways of other projects.
func aloneFiles(servers ...string) map[string]string {
	pool := strings.Replace(poolYAML("chat"), "spec:\n",
		"spec:\n  endpointPickerRef: {name: epp, port: {number: 9002}}\n", 1)
	return map[string]string{"pool.yaml": pool, "servers.yaml": serversYAML("chat", servers...)}
}

func TestStandAlonePicker_ServesGatewaysThatPenstockDoesNotConfigure(t *testing.T) {
	t.Parallel()
	east, west := serverNamed(t, "pod-east"), serverNamed(t, "pod-west")
	files := aloneFiles(east, west)
	files["policy.yaml"] =
		"apiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: chat}\nspec: {targetRef: {name: " +
			"chat}, picker: {strategy: load}}\n"
	p := startPicker(t, files, "--conformance")
	e := startBareEnvoy(t, bareEnvoy{Pickers: []int{p.port}, Servers: []int{portOf(east), portOf(west)}, TLS: true})
	for _, way := range e.ways() {
		// An ORIGINAL_DST cluster accepts one endpoint: a list would be an invalid address.
		if got, err := e.chat(way, "x-none", "-"); err != nil || got.status != http.StatusOK {
			t.Errorf("%s: %d %q %v, want %d", way, got.status, got.header.Get("x-penstock-reason"), err, http.StatusOK)
		}
		for pod, address := range map[string]string{"pod-east": east, "pod-west": west} {
			got, err := e.chat(way, "test-epp-endpoint-selection", address)
			if err != nil || got.status != http.StatusOK || got.header.Get("x-served-by") != pod {
				t.Errorf("%s to %s: got %d from %q: %s %v, want 200 from this one", way, pod, got.status,
					got.header.Get("x-served-by"), got.body, err)
			}
			if strings.HasSuffix(way, "override-host") && got.header.Get("x-conformance-test-served-endpoint") == "" {
				t.Errorf("%s: got no header with the endpoint that served, want it", way)
			}
		}
		got, err := e.chat(way, "x-subset", west)
		if err != nil || got.header.Get("x-served-by") != "pod-west" {
			t.Errorf(`%s, subset: %d from %q %v, want "pod-west"`, way, got.status, got.header.Get("x-served-by"), err)
		}
		got, err = e.chat(way, "x-subset", "192.0.2.1:80")
		if err != nil || got.status != http.StatusServiceUnavailable ||
			got.header.Get("x-penstock-reason") != "subset_empty" {
			t.Errorf(`%s, empty subset: %d %q %v, want %d and "subset_empty"`,
				way, got.status, got.header.Get("x-penstock-reason"), err, http.StatusServiceUnavailable)
		}
	}
	page := p.page()
	for _, want := range []string{
		`penstock_picker_picks_total{pool="default/chat",result="picked"}`, `llm_d_epp_ready_endpoints{name="chat"} 2`,
		`inference_pool_ready_pods{name="chat"} 2`,
		`llm_d_epp_request_total{fairness_id="",model_name="llama",priority="0",target_model_name="llama"}`,
		`inference_pool_average_queue_size{name="chat"} 0`,
		`llm_d_epp_scheduler_attempts_total{endpoint_name="chat/127.0.0.1",namespace="default",port="` +
			fmt.Sprint(portOf(east)) + `",status="success",target_model_name="llama"}`,
		`error_code="503"`, "llm_d_epp_request_duration_seconds_count",
		"llm_d_epp_scheduler_e2e_duration_seconds_count", "llm_d_epp_request_ttft_seconds_count",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("metrics: got\n%s\nwant %s", page, want)
		}
	}
	eventually(t, "no request is in flight any more", func() error {
		if page := p.page(); !strings.Contains(page, "penstock_picker_open_leases 0\n") {
			return fmt.Errorf("metrics: got %s, want no open leases", page)
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
	server := serverNamed(t, "pod")
	p := startPicker(t, aloneFiles(server), "--client-ca", filepath.Join(dir, "ca.crt"))
	known := startBareEnvoy(t,
		bareEnvoy{Pickers: []int{p.port}, Servers: []int{portOf(server)}, TLS: true,
			ClientCert: filepath.Join(dir, "tls.crt"), ClientKey: filepath.Join(dir, "tls.key")})
	unknown := startBareEnvoy(t, bareEnvoy{Pickers: []int{p.port}, Servers: []int{portOf(server)}, TLS: true})
	if got, err := known.chat("duplex-original-dst"); err != nil || got.status != http.StatusOK {
		t.Errorf("with a certificate: %d %s %v, want %d", got.status, got.body, err, http.StatusOK)
	}
	if got, err := unknown.chat("duplex-original-dst"); err != nil || got.status < 500 {
		t.Errorf("without one: %d %s %v, want at least 500", got.status, got.body, err)
	}
}

func TestStandAlonePicker_NamesAndConfigFileAreThoseOfItsFlags(t *testing.T) {
	t.Parallel()
	east, west := serverNamed(t, "pod-east"), serverNamed(t, "pod-west")
	files := aloneFiles()
	files["servers.yaml"] = strings.Replace(serversYAML("east", east), "app: east", "app: chat, zone: east", 1) +
		"---\n" +
		strings.Replace(serversYAML("west", west), "app: west", "app: chat, zone: west", 1)
	config := filepath.Join(t.TempDir(), "plugins.yaml")
	write := func(text string) {
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(zonePlugins("east"))
	p := startPicker(t, files, "--config-file", config, "--secure-serving=false", "--destination-endpoint-hint-key",
		"x-pod",
		"--destination-endpoint-hint-metadata-namespace", "picks", "--destination-endpoint-subset-metadata-namespace",
		"subset")
	e := startBareEnvoy(t,
		bareEnvoy{Pickers: []int{p.port}, Servers: []int{portOf(east), portOf(west)}, Key: "x-pod", Namespace: "picks",
			Subset: "subset"})
	servedBy := func(pod string) {
		t.Helper()
		for _, way := range e.ways() {
			eventually(t, way+" goes to "+pod, func() error {
				got, err := e.chat(way)
				if err != nil || got.header.Get("x-served-by") != pod {
					return fmt.Errorf("got %d from %q: %s %w, want %s", got.status, got.header.Get("x-served-by"),
						got.body, err, pod)
				}
				return nil
			})
		}
	}
	servedBy("pod-east")
	if got, err := e.chat("duplex-original-dst", "x-subset", west); err != nil ||
		got.status != http.StatusServiceUnavailable {
		t.Errorf("a subset without the only server of the zone: got %d %v, want 503", got.status, err)
	}
	write(zonePlugins("west"))
	servedBy("pod-west")
	write(strings.Replace(zonePlugins("east"), "queue-scorer", "unknown-scorer", 1))
	p.errs.expect(t, "the last valid one stays")
	servedBy("pod-west")
}

func TestStandAlonePicker_GoesOnPickingWhileItDrains(t *testing.T) {
	t.Parallel()
	server := serverNamed(t, "pod")
	p := startPicker(t, aloneFiles(server), "--drain-timeout", "1h")
	e := startBareEnvoy(t, bareEnvoy{Pickers: []int{p.port}, Servers: []int{portOf(server)}, TLS: true})
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.isServing(false)
	if got, err := e.chat("gateway-original-dst"); err != nil || got.status != http.StatusOK {
		t.Errorf("while draining: %d %s %v, want %d", got.status, got.body, err, http.StatusOK)
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
		{"--model-server-metrics-scheme ftp", "http or https"},
		{"--model-server-metrics-scheme https --model-server-metrics-https-insecure-skip-verify=false",
			"BackendTLSPolicy"},
		{"--model-server-metrics-path metrics", "begins with /"},
		{"--pool-name a argument", "unknown command \"argument\""},
		{"--pool-name a/b/c", "NAMESPACE/NAME"},
		{"--pool-name a/", "NAMESPACE/NAME"},
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
		{"--destination-endpoint-hint-key Bad:Key",
			`--destination-endpoint-hint-key "Bad:Key": write the name of a header`},
		{"--destination-endpoint-hint-key Content-Length",
			`--destination-endpoint-hint-key "Content-Length": this header has a meaning of its own`},
		{"--destination-endpoint-hint-key=", `--destination-endpoint-hint-key "": write`},
		{"--destination-endpoint-hint-metadata-namespace=",
			`hint-metadata-namespace "": write the name of a metadata namespace`},
		{"--destination-endpoint-subset-metadata-namespace a/b", `subset-metadata-namespace "a/b": write`},
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
		{[]string{"--pool-name", "x"}, "picker"}, {[]string{"--endpoint-selector=a=b"}, "picker"},
		{[]string{"--help"}, "--help"}, {[]string{"status"}, "status"}, {nil, ""},
		{[]string{"", "--pool-name", "x", ""}, "picker --pool-name x "}, {[]string{"", "status"}, " status"},
		{[]string{""}, ""},
	} {
		if got := strings.Join(append(withCommand(newRoot(), tt.args), ""), " "); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%q: %q, want the beginning %q", tt.args, got, tt.want)
		}
	}
}

func TestStandAlonePicker_IsNotReadyUntilOnePoolIsMeant(t *testing.T) {
	t.Parallel()
	files := aloneFiles(serverNamed(t, "pod"))
	files["other.yaml"] = poolYAML("other") + `---
apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferenceModel
metadata: {name: chat}
spec: {modelName: chat, poolRef: {name: chat}}
---
apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferenceModel
metadata: {name: other}
spec: {modelName: other, poolRef: {name: other}}
---
` + gatewayYAML("gw", 8080)
	readyz := func(p *alonePicker, status int, text string) {
		t.Helper()
		eventually(t, fmt.Sprint("/readyz is ", status, " ", text), func() error {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.metrics+"/readyz", nil)
			if err != nil {
				return err
			}
			if got, err := do(client(), req); err != nil || got.status != status || !strings.Contains(got.body, text) {
				return fmt.Errorf("got %d %s %w, want %d %s", got.status, got.body, err, status, text)
			}
			return nil
		})
	}
	several := runAlone(t, files)
	readyz(several, http.StatusServiceUnavailable,
		"write the one to pick from in --pool-name: default/chat, default/other")
	several.errs.expect(t, "level=ERROR")
	several.errs.expect(t, "--pool-name: default/chat, default/other")
	several.isServing(false)
	several.remove("other.yaml")
	several.isServing(true)
	readyz(several, http.StatusOK, "ok")

	absent := runAlone(t, files, "--pool-name", "nope")
	readyz(absent, http.StatusServiceUnavailable,
		"there is no InferencePool default/nope; write one of default/chat, default/other in --pool-name")
	absent.isServing(false)
	absent.errs.expect(t, "there is no InferencePool default/nope")
	for _, wrong := range []string{"there is no InferencePool default/chat", "GatewayClass"} {
		if text := absent.errs.String(); strings.Contains(text, wrong) {
			t.Errorf("the log: got\n%[2]s\nwant no %[1]q", wrong, text)
		}
	}
}

func TestInferenceModel_OlderOneCountsInAFolder(t *testing.T) {
	t.Parallel()
	files := aloneFiles(serverNamed(t, "pod"))
	for name, created := range map[string]string{"a-young": "2025-01-01T00:00:00Z", "b-old": "2020-01-01T00:00:00Z"} {
		files[name+".yaml"] = fmt.Sprintf(`apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferenceModel
metadata: {name: %s, creationTimestamp: %q}
spec: {modelName: llama, poolRef: {name: chat}}
`, name, created)
	}
	p := startPicker(t, files)
	p.errs.expect(t, "InferenceModel default/a-young")
	if text := p.errs.String(); strings.Contains(text, ": InferenceModel default/b-old") {
		t.Errorf("the log: got\n%s\nwant no report of the older one", text)
	}
}

// zonePlugins is an EndpointPickerConfig that keeps the servers of one zone.
func zonePlugins(zone string) string {
	return `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: label-selector-filter
  name: zone
  parameters: {matchLabels: {zone: ` + zone + `}}
- type: prefix-cache-scorer
- type: queue-scorer
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: zone
  - {pluginRef: prefix-cache-scorer, weight: 3}
  - {pluginRef: queue-scorer, weight: 2}
`
}
