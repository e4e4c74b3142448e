//go:build lab && linux

package chart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/installed"
	"github.com/penstock-project/penstock/conformance/lab/labtest"
)

const qwen = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: vllm}
spec:
  replicas: 2
  selector: {matchLabels: {app: vllm}}
  template:
    metadata: {labels: {app: vllm}}
    spec: {containers: [{name: sim, image: "ghcr.io/penstock-project/penstock:0.1.0", args: [sim, --port=8000, --name=$(POD_NAME), --model=qwen], env: [{name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}], readinessProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 1}}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: qwen}
spec: {parentRefs: [{name: gw}], rules: [{backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: qwen}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec: {gatewayClassName: penstock, listeners: [{name: http, port: 80, protocol: HTTP}]}
`

const epp = `config: |
  apiVersion: llm-d.ai/v1alpha1
  kind: EndpointPickerConfig
  plugins:
  - type: queue-scorer
  - type: prefix-cache-scorer
  schedulingProfiles:
  - name: default
    plugins: [{pluginRef: queue-scorer}, {pluginRef: prefix-cache-scorer, weight: 2}]
`

// The release's Service is the picker of the release's pool. The pool fails closed, so a served
// request proves that this picker picked. The release's probes, Role and ConfigMap are enough.
func TestPickerHelm_ReleasePicksForAGateway(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "picker")
	if err != nil {
		t.Fatal(err)
	}
	l, err := installed.Start(ctx, lab.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Down(); err != nil {
			t.Error(err)
		}
	})
	p := labtest.NewPlace(t, l.Kubeconfig(), "")
	values := t.TempDir() + "/values.yaml"
	if err := os.WriteFile(values, []byte(epp), 0o600); err != nil {
		t.Fatal(err)
	}
	release := func(verb string, args ...string) {
		t.Helper()
		helm(t,
			append([]string{verb, "qwen", pickerDir, "--namespace", p.Namespace, "--kubeconfig", l.Kubeconfig(),
				"--wait", "--timeout", labtest.Timeout.String(), "--set", "pool.selector.app=vllm", "--values", values},
				args...)...)
	}
	release("install")
	if err := installed.Apply(t.Context(), p.REST, p.Namespace, []byte(qwen)); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(p.REST)
	if err != nil {
		t.Fatal(err)
	}
	gateways := client.Resource(schema.GroupVersionResource{
		Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways",
	}).Namespace(p.Namespace)
	chat := func(ctx context.Context) (string, error) {
		gw, err := gateways.Get(ctx, "gw", metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		list, _, _ := unstructured.NestedSlice(gw.Object, "status", "addresses")
		if len(list) == 0 {
			return "", errors.New("the Gateway has no address")
		}
		return post(ctx, "http://"+fmt.Sprint(list[0].(map[string]any)["value"])+"/v1/chat/completions",
			`{"model": "qwen", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 2}`)
	}
	const requests = 20
	served := func(what string) {
		t.Helper()
		p.Until(what, func(ctx context.Context) error { _, err := chat(ctx); return err })
		// A control plane probes a picker once after it has connected. The probe counts as a pick.
		p.Until(what+": there are as many picks as requests", func(context.Context) error {
			before := picks(t, p)
			for range requests {
				if by, err := chat(t.Context()); err != nil || !strings.HasPrefix(by, "vllm-") {
					t.Fatalf(`%s: from %q: %v, want the beginning "vllm-"`, what, by, err)
				}
			}
			if n := picks(t, p) - before; n != requests {
				return fmt.Errorf("the pickers picked %d times, want %d", n, requests)
			}
			return nil
		})
	}
	served("the release picks")

	// Without TLS and with one replica, the Service's appProtocol changes. Envoy must use the new
	// protocol.
	release("upgrade", "--set", "tls.enabled=false,replicas=1")
	p.RolledOut(p.Namespace, "qwen-epp")
	served("without TLS")
}

// picks returns the number of picks, the sum of the picker pods' metrics.
func picks(t *testing.T, p labtest.Place) (sum int) {
	t.Helper()
	pods, err := p.CoreV1().Pods(p.Namespace).List(t.Context(),
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=penstock-picker"})
	if err != nil {
		t.Fatal(err)
	}
	picked := regexp.MustCompile(`(?m)^penstock_picker_picks_total\{.*result="picked".*\} (\d+)$`)
	for _, pod := range pods.Items {
		if !labtest.Ready(pod.Status) || pod.DeletionTimestamp != nil {
			continue
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://"+net.JoinHostPort(pod.Status.PodIP, "9090")+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range picked.FindAllSubmatch(page, -1) {
			n, _ := strconv.Atoi(string(m[1]))
			sum += n
		}
	}
	return sum
}

func post(ctx context.Context, url, body string) (servedBy string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return "", err
	}
	request.Close = true
	request.Header.Set("content-type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s %s %w, want 200", response.Status, text, err)
	}
	return response.Header.Get("x-served-by"), nil
}
