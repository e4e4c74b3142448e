//go:build lab && linux

package chart

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/installed"
	"github.com/penstock-project/penstock/conformance/lab/labtest"
)

const assisted = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat}
spec: {parentRefs: [{name: gw}], rules: [{backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: external}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec: {gatewayClassName: penstock, listeners: [{name: http, port: 80, protocol: HTTP}]}
`

// The chart installs a processor, a router, a token store and workers. They answer each branch of
// the proposal's diagram, also while a program is missing. The test acts as the endpoint picker.
func TestExternalHelm_EachBranchIsServed(t *testing.T) {
	e := installExternal(t)
	if err := installed.Apply(t.Context(), e.p.REST, e.p.Namespace, []byte(assisted)); err != nil {
		t.Fatal(err)
	}
	gateway := &releases{place: e.p}
	gateway.clients()
	e.p.Until("the Gateway leads to the workers", func(ctx context.Context) error {
		address, err := gateway.address(ctx)
		if err != nil {
			return err
		}
		by, err := post(ctx, "http://"+address+"/v1/chat/completions",
			`{"model": "sim-model", "messages": [{"role": "user", "content": "hello"}]}`)
		if err == nil && !strings.HasPrefix(by, "external-workers-") {
			err = fmt.Errorf("got an answer of %q, want one of external-workers", by)
		}
		return err
	})

	versions := map[string]string{}
	for _, component := range []string{"processor", "router", "tokens"} {
		e.p.Until("the Service of the "+component+" has endpoints",
			func(ctx context.Context) error { return labtest.Get(ctx, e.service(component)+"/healthz") })
		_, body := e.call(http.MethodGet, e.service(component)+"/version", "", nil)
		var v struct{ Component, Version string }
		if err := json.Unmarshal(body, &v); err != nil || v.Component != component {
			t.Fatalf("%s: got %s: %v, want the version of this component", component, body, err)
		}
		versions[v.Version] = component
	}
	if len(versions) != 1 {
		t.Errorf("programs of several releases: %v, want 1 of them", versions)
	}

	long := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 40)
	e.routes()
	routed := e.process(long, true)
	e.expect("routed, token store", routed, true, true)
	e.served("routed, token store", routed.Worker, long, routed, "store")
	for range 3 {
		if again := e.process(long+"And then?", true); again.Worker != routed.Worker {
			t.Errorf("a prompt whose beginning is at %s was routed to %s, want the same worker", routed.Worker,
				again.Worker)
		}
	}
	own := e.process(long, false)
	e.expect("own scheduling, token store", own, false, true)
	e.served("own scheduling, token store", e.workers()[0], long, own, "store")
	e.served("a key that has expired", e.workers()[0], long, processed{Key: strings.Repeat("0", 32)}, "prompt")

	e.scale("router", 0)
	e.expect("the router is away", e.process(long, true), false, true)
	e.scale("router", 1)
	e.routes()
	e.scale("tokens", 0)
	direct := e.process(long, true)
	e.expect("the token store is away", direct, true, false)
	e.served("the token store is away", direct.Worker, long, direct, "body")

	e.helm("upgrade", "--set", "tokens.enabled=false")
	e.p.RolledOut(e.p.Namespace, "external-processor")
	e.p.RolledOut(e.p.Namespace, "external-workers")
	e.routes()
	direct = e.process(long, true)
	e.expect("routed, token IDs in the body", direct, true, false)
	e.served("routed, token IDs in the body", direct.Worker, long, direct, "body")
	direct = e.process(long, false)
	e.expect("own scheduling, token IDs in the body", direct, false, false)
	e.served("own scheduling, token IDs in the body", e.workers()[1], long, direct, "body")
}

type externalRelease struct {
	t   *testing.T
	lab *lab.Lab
	p   labtest.Place
}

func installExternal(t *testing.T) *externalRelease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "external")
	if err != nil {
		t.Fatal(err)
	}
	e := &externalRelease{t: t}
	if e.lab, err = installed.Start(ctx, lab.Config{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.lab.Down(); err != nil {
			t.Error(err)
		}
	})
	e.p = labtest.NewPlace(t, e.lab.Kubeconfig(), "")
	e.helm("install")
	return e
}

func (e *externalRelease) helm(verb string, args ...string) {
	e.t.Helper()
	helm(e.t,
		append([]string{verb, "external", externalDir, "--namespace", e.p.Namespace, "--kubeconfig", e.lab.Kubeconfig(),
			"--wait", "--timeout", labtest.Timeout.String()}, args...)...)
}

func (e *externalRelease) service(component string) string {
	e.t.Helper()
	s, err := e.p.CoreV1().Services(e.p.Namespace).Get(e.t.Context(), "external-"+component, metav1.GetOptions{})
	if err != nil {
		e.t.Fatal(err)
	}
	return "http://" + net.JoinHostPort(s.Spec.ClusterIP, "8080")
}

func (e *externalRelease) workers() []string {
	e.t.Helper()
	pods, err := e.p.CoreV1().Pods(e.p.Namespace).List(e.t.Context(),
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=workers"})
	if err != nil {
		e.t.Fatal(err)
	}
	var out []string
	for _, pod := range pods.Items {
		if labtest.Ready(pod.Status) && pod.DeletionTimestamp == nil {
			out = append(out, net.JoinHostPort(pod.Status.PodIP, "8000"))
		}
	}
	return out
}

func (e *externalRelease) scale(component string, replicas int32) {
	e.t.Helper()
	s, err := e.p.AppsV1().Deployments(e.p.Namespace).GetScale(e.t.Context(), "external-"+component,
		metav1.GetOptions{})
	if err == nil {
		s.Spec.Replicas = replicas
		_, err = e.p.AppsV1().Deployments(e.p.Namespace).UpdateScale(e.t.Context(), "external-"+component, s,
			metav1.UpdateOptions{})
	}
	if err != nil {
		e.t.Fatal(err)
	}
	e.p.RolledOut(e.p.Namespace, "external-"+component)
}

type processed struct {
	Worker string `json:"worker_address"`
	Key    string `json:"token_key"`
	Value  string `json:"token_value"`
}

func (e *externalRelease) process(text string, route bool) processed {
	e.t.Helper()
	a, err := e.ask(text, route)
	if err != nil {
		e.t.Fatal(err)
	}
	return a
}

func (e *externalRelease) ask(text string, route bool) (a processed, err error) {
	e.t.Helper()
	body := map[string]any{"model": "sim-model", "messages": chatOf(text)}
	if route {
		body["route"] = true
	}
	_, answer, err := e.try(http.MethodPost, e.service("processor")+"/process", "",
		map[string]any{"request_body": body, "headers": map[string]string{"x-request-id": "req-123"}})
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return a, fmt.Errorf("%s: %w", answer, err)
	}
	return a, nil
}

// routes waits until the router has the workers, whose DNS names are some seconds old, and both
// processes of the processor call the router. The processor's Service may still lead to a deleted
// pod.
func (e *externalRelease) routes() {
	e.t.Helper()
	e.p.Until("the router chooses a worker", func(context.Context) error {
		ready := e.workers()
		for range 10 {
			if a, err := e.ask("Hello", true); err != nil || !slices.Contains(ready, a.Worker) {
				return fmt.Errorf("got %+v, %v, want one of the workers %v", a, err, ready)
			}
		}
		return nil
	})
}

// expect checks an answer's form. With worker, the answer names a ready worker. With key, it has a
// key instead of token IDs.
func (e *externalRelease) expect(branch string, a processed, worker, key bool) {
	e.t.Helper()
	if (a.Worker != "") != worker || (a.Key != "") != key || (a.Value != "") == key {
		e.t.Fatalf("%s: %+v", branch, a)
	}
	if worker && !slices.Contains(e.workers(), a.Worker) {
		e.t.Errorf("%s: %s is not one of the workers %v", branch, a.Worker, e.workers())
	}
}

// served sends a chat with the processor's answer to a worker, and checks the source of the
// worker's token IDs.
func (e *externalRelease) served(branch, worker, text string, a processed, from string) {
	e.t.Helper()
	body := map[string]any{"model": "sim-model", "messages": chatOf(text)}
	if a.Value != "" {
		body["token_ids"] = json.RawMessage(a.Value)
	}
	response, answer := e.call(http.MethodPost, "http://"+worker+"/v1/chat/completions", a.Key, body)
	var usage struct {
		Usage struct {
			PromptTokens int `json:"prompt_tokens"`
		}
	}
	if err := json.Unmarshal(answer, &usage); err != nil {
		e.t.Fatalf("%s: %s: %v", branch, answer, err)
	}
	// The sentence has nine words, and ten tokens in o200k_base. The processor adds "user: " before
	// the sentence.
	words := len(strings.Fields(text))
	if got := response.Header.Get("x-tokens-from"); got != from ||
		(usage.Usage.PromptTokens > words) != (from != "prompt") {
		e.t.Errorf("%s: %d tokens from %q, want them from %q; the prompt has %d words", branch,
			usage.Usage.PromptTokens, got, from, words)
	}
}

func chatOf(text string) []map[string]string {
	return []map[string]string{{"role": "user", "content": text}}
}

func (e *externalRelease) call(method, url, key string, body any) (*http.Response, []byte) {
	e.t.Helper()
	response, answer, err := e.try(method, url, key, body)
	if err != nil {
		e.t.Fatal(err)
	}
	return response, answer
}

func (e *externalRelease) try(method, url, key string, body any) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(e.t.Context(), 10*time.Second)
	defer cancel()
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(raw))
	if err != nil {
		return nil, nil, err
	}
	request.Close = true
	if key != "" {
		request.Header.Set("x-req-tokens-key", key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("%s %s: got %s: %s %v, want 200", method, url, response.Status, answer, err)
	}
	return response, answer, nil
}
