package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
	"github.com/penstock-project/penstock/picker"
)

// exporter is a second cluster: a Gateway, a pool "chat" and a picker for other clusters.
func exporter(t *testing.T, servers ...string) (gateway, picker int) {
	t.Helper()
	gateway, picker = freePort(t), freePort(t)
	up(t, chatFiles(gateway, servers...), "--picker", fmt.Sprintf("127.0.0.1:%d", picker), "--default-pool", "default/chat")
	return gateway, picker
}

func TestEndpointPicker_ExternalPickerDecidesAndFailureModeApplies(t *testing.T) {
	t.Parallel()
	first, second := modelServer(t, sim.Config{Name: "pod-1"}), modelServer(t, sim.Config{Name: "pod-2"})
	// The external picker picks pod-2 only: all requests go there, so Envoy calls it.
	_, external := exporter(t, second)
	port := freePort(t)
	pool := strings.TrimSuffix(poolYAML("chat"), "\n") + fmt.Sprintf("\n  endpointPickerRef: {name: epp, port: {number: %d}, failureMode: FailClose}\n", external)
	service := fmt.Sprintf(`---
apiVersion: v1
kind: Service
metadata: {name: epp}
spec:
  ports: [{name: ext-proc, port: %d, appProtocol: kubernetes.io/h2c}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: epp-1, labels: {kubernetes.io/service-name: epp}}
addressType: IPv4
ports: [{name: ext-proc, port: %d}]
endpoints: [{addresses: [127.0.0.1]}]
`, external, external)
	files := chatFiles(port, first, second)
	files["pool.yaml"] = pool + service
	s := up(t, files)
	answers(t, local(port), http.StatusOK)
	for range 20 {
		got, err := chat(t.Context(), local(port))
		if err != nil || got.status != http.StatusOK || got.header.Get("x-served-by") != "pod-2" || !strings.Contains(got.body, "repeat this") {
			t.Fatalf("%d from %q: %s %v", got.status, got.header.Get("x-served-by"), got.body, err)
		}
	}

	// A picker that cannot be reached: 503 with FailClose, any endpoint with FailOpen.
	unreachable := strings.ReplaceAll(pool+service, fmt.Sprint(external), fmt.Sprint(freePort(t)))
	s.write("pool.yaml", unreachable)
	answers(t, local(port), http.StatusServiceUnavailable)
	s.write("pool.yaml", strings.Replace(unreachable, "FailClose", "FailOpen", 1))
	answers(t, local(port), http.StatusOK)
}

func TestInferencePoolImport_EndpointModeAndParentModeServe(t *testing.T) {
	t.Parallel()
	remote := modelServer(t, sim.Config{Name: "east-1"})
	gateway, remotePicker := exporter(t, remote)
	_, remotePort, _ := net.SplitHostPort(remote)
	port := freePort(t)
	files := chatFiles(port, modelServer(t, sim.Config{Name: "here-1"}))
	importOf := "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: %s}"
	files["import.yaml"] = fmt.Sprintf(`apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferencePoolImport
metadata: {name: far}
status:
  clusters:
  - name: relayed
    routingMode: EndpointMode
    targetPortNumber: %s
    podCIDRs: [127.0.0.0/8]
    endpointPicker: {service: {addresses: [127.0.0.1], ports: [{number: %d, appProtocol: kubernetes.io/h2c}]}}
  - name: declared
    routingMode: EndpointMode
    targetPorts: [{number: %s}]
    endpoints: [{address: 127.0.0.1}]
    endpointPicker: {service: [{addresses: [127.0.0.1], ports: [{number: %d, appProtocol: kubernetes.io/h2c}]}]}
  - name: parent
    routingMode: ParentMode
    parents: [{service: {addresses: [127.0.0.1], ports: [{number: %d}]}}]
`, remotePort, remotePicker, remotePort, remotePicker, gateway)
	for _, cluster := range []string{"relayed", "declared", "parent"} {
		files[cluster+".yaml"] = routeYAML(cluster, "/"+cluster, fmt.Sprintf(importOf, "far-"+cluster))
	}
	files["all.yaml"] = routeYAML("all", "/all", fmt.Sprintf(importOf, "far"))
	files["half.yaml"] = routeYAML("half", "/half", toPool("chat")+", "+fmt.Sprintf(importOf, "far"))
	s := up(t, files)

	for _, path := range []string{"/relayed", "/declared", "/parent", "/all"} {
		for range 5 {
			got := answers(t, local(port)+path, http.StatusOK)
			if by := got.header.Get("x-served-by"); by != "east-1" || !strings.Contains(got.body, "repeat this") {
				t.Errorf("%s: from %q: %s", path, by, got.body)
			}
		}
	}
	served := map[string]int{}
	for range 40 {
		served[answers(t, local(port)+"/half", http.StatusOK).header.Get("x-served-by")]++
	}
	// Each request is random: all 40 on one side have a probability of 1 in 500 billion.
	if served["here-1"] == 0 || served["east-1"] == 0 || len(served) != 2 {
		t.Errorf("50:50 went to %v", served)
	}
	if out := s.penstock("explain", local(port)+"/half/v1/models"); !strings.Contains(out, "50.0% of requests to InferencePool default/chat") || strings.Count(out, ", the first for 33.3% of these requests") != 3 {
		t.Errorf("explain:\n%s", out)
	}
	// A remote picker may name addresses in the declared ranges only.
	s.write("import.yaml", strings.Replace(files["import.yaml"], "127.0.0.0/8", "10.0.0.0/8", 1))
	answers(t, local(port)+"/relayed", http.StatusServiceUnavailable)
}

// importOfParent is the import far, of a gateway, and a route that sends everything there.
func importOfParent(port int) string {
	return fmt.Sprintf(`apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferencePoolImport
metadata: {name: far}
status: {clusters: [{name: next, routingMode: ParentMode, parents: [{service: {addresses: [127.0.0.1], ports: [{number: %d}]}}]}]}
---
`, port) + routeYAML("far", "/", "{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far}")
}

// Three gateways, of which each sends its requests to the next, end a request, and not the other way round.
func TestInferencePoolImport_RingOfGatewaysEndsARequest(t *testing.T) {
	t.Parallel()
	ports := []int{freePort(t), freePort(t), freePort(t)}
	var sites []*site
	for i, port := range ports {
		sites = append(sites, up(t, map[string]string{"gateway.yaml": gatewayYAML("gw", port), "far.yaml": importOfParent(ports[(i+1)%3])}))
	}
	ended := func(text string) {
		t.Helper()
		eventually(t, "the request has "+text, func() error {
			got, err := chat(t.Context(), local(ports[0]))
			if err != nil || got.status != http.StatusLoopDetected || !strings.Contains(got.body, text) || got.header.Get("x-penstock-reason") != "gateway_loop" {
				return fmt.Errorf("%d %v %s %w", got.status, got.header, got.body, err)
			}
			return nil
		})
	}
	ended("passed through 4 gateways")
	sites[0].write("policy.yaml", `apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: far}
spec:
  targetRef: {group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far}
  remote: {maxGateways: 1}
`)
	ended("passed through 1 gateways")
}

// A gateway of another cluster sees where a request comes from; the client does not see where its answer comes from.
func TestInferencePoolImport_GatewaysAreNamedInVia(t *testing.T) {
	t.Parallel()
	parent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Via", "1.1 inside")
		_, _ = fmt.Fprint(w, strings.Join(r.Header.Values("Via"), ", "))
	}))
	t.Cleanup(parent.Close)
	port := freePort(t)
	files := chatFiles(port, modelServer(t, sim.Config{Name: "here-1"}))
	files["route.yaml"] = routeYAML("half", "/half", toPool("chat")+", {group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: far}")
	files["far.yaml"] = importOfParent(parent.Listener.Addr().(*net.TCPAddr).Port)
	up(t, files)
	answers(t, local(port), http.StatusOK)
	answers(t, local(port)+"/half", http.StatusOK)
	for sent, want := range map[string]string{"": "1.1 penstock", "2 theirs": "2 theirs,1.1 penstock"} {
		var pairs []string
		if sent != "" {
			pairs = []string{"via", sent}
		}
		if got := ask(t, local(port), question, pairs...); got.body != want || got.header.Get("via") != "" {
			t.Errorf("after %q the gateway gets %q, and the client %q", sent, got.body, got.header.Get("via"))
		}
	}
	for range 20 { // half would go to the other cluster
		if got := ask(t, local(port)+"/half", question, "via", "1.1 penstock, 1.1 penstock,2 theirs,1.1 penstock,1.1 penstock"); got.status != http.StatusOK || got.header.Get("x-served-by") != "here-1" {
			t.Errorf("a request that has passed through 4 gateways: %d %s", got.status, got.body)
		}
	}
}

// llmd starts llm-d-inference-sim until the test ends, and returns its address once it answers.
func llmd(t *testing.T, model string, args ...string) string {
	t.Helper()
	binary, err := filepath.Abs(filepath.Join(root, ".tools", "bin", "llm-d-inference-sim"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("%v: `make sims` builds it", err)
	}
	port := freePort(t)
	cmd := exec.Command(binary, append([]string{"--model", model, "--port", fmt.Sprint(port), "--mode", "echo"}, args...)...)
	output := newTranscript()
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("llm-d-inference-sim printed:\n%s", output)
		}
	})
	eventually(t, "llm-d-inference-sim answers", func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, local(port)+"/health", nil)
		if err != nil {
			return err
		}
		_, err = do(client(), req)
		return err
	})
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// llm-d-inference-sim is an independent simulator: its metrics decide the picks, its responses arrive plain and streamed.
func TestEndpointPicker_PicksTheIdleServerByItsMetrics(t *testing.T) {
	t.Parallel()
	busy := llmd(t, "llama", "--fake-metrics", `{"running-requests": 5, "waiting-requests": 40, "kv-cache-usage": 0.95}`)
	idle := llmd(t, "llama")
	port := freePort(t)
	s := up(t, chatFiles(port, busy, idle))
	answers(t, local(port), http.StatusOK)
	url := local(port) + "/v1/chat/completions"
	eventually(t, "the busy server's queue is known", func() error {
		var e struct {
			Picks map[string]picker.Explanation `json:"picks"`
		}
		if err := json.Unmarshal([]byte(s.penstock("explain", url, "-o", "json")), &e); err != nil {
			return err
		}
		for _, v := range e.Picks["default/chat"].Verdicts {
			if v.Address == busy && v.State.Queue == 40 {
				return nil
			}
		}
		return fmt.Errorf("%+v", e.Picks)
	})
	for range 10 {
		got := answers(t, local(port), http.StatusOK)
		if !strings.Contains(got.body, "repeat this") {
			t.Errorf("not an echo: %s", got.body)
		}
	}
	events := 0
	if err := stream(t.Context(), local(port), "one two three", func(string) { events++ }); err != nil || events < 3 {
		t.Errorf("streamed: %d events, %v", events, err)
	}
	// The busy server has at most the first request, from before its metrics were scraped.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+idle+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := do(client(), req)
	if err != nil || !strings.Contains(got.body, "vllm:") {
		t.Fatalf("%v", err)
	}
	if out := s.penstock("explain", url); !strings.Contains(out, "now") || !strings.Contains(out, idle) {
		t.Errorf("explain:\n%s", out)
	}
}
