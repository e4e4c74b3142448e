//go:build lab && upgrade && linux

package chart

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/penstock-project/penstock/conformance/lab/image"
	"github.com/penstock-project/penstock/conformance/lab/installed"
	"github.com/penstock-project/penstock/conformance/lab/labtest"
	"github.com/penstock-project/penstock/conformance/promises/process"
)

var rounds = flag.Int("rounds", 5, "upgrades by Helm, each followed by a rollback")

const earlierTag = "earlier"

// busy is a pool and a Service of the same servers. The pool fails closed, so that a lost pick is a
// lost request.
const busy = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  replicas: 2
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec:
      containers:
      - name: server
        image: ghcr.io/penstock-project/penstock:0.1.0
        args: [sim, --port=8000, --name=$(POD_NAME), --time-to-first-token=20ms, --inter-token-latency=500ms]
        env: [{name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        readinessProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 1, timeoutSeconds: 10}
---
apiVersion: v1
kind: Service
metadata: {name: chat}
spec: {selector: {app: chat}, ports: [{port: 80, targetPort: 8000}]}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: chat}
spec: {selector: {matchLabels: {app: chat}}, targetPorts: [{number: 8000}]}
---
apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: chat}
spec: {targetRef: {name: chat}, picker: {failureMode: FailClose}}
---
apiVersion: penstock.dev/v1alpha1
kind: EnvoyFleet
metadata: {name: gw}
spec: {replicas: 2, drainSeconds: 60, resources: {requests: {cpu: 10m, memory: 32Mi}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat}
spec:
  parentRefs: [{name: gw}]
  rules:
  - matches: [{path: {value: /v1}}]
    backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: chat}]
  - backendRefs: [{name: chat, port: 80}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: penstock
  infrastructure: {parametersRef: {group: penstock.dev, kind: EnvoyFleet, name: gw}}
  listeners: [{name: http, port: 80, protocol: HTTP}]
`

// The test installs an earlier version, named in conformance/features/upgrade.txt, with that
// version's chart. Helm upgrades it to this version and rolls it back, repeatedly. Each time, all
// replicas and proxies are replaced. No request fails, and all objects keep their fields.
//
// In every second round, the CRDs change before the upgrade, as docs/upgrades.md advises. In other
// rounds, they change after it: Helm does not upgrade CRDs, and users forget them. After a
// rollback, the earlier CRDs are applied again, as Flux and Argo CD do.
func TestUpgrade_HelmUpgradesAndRollsBackUnderLoad(t *testing.T) {
	commit, err := os.ReadFile("../../features/upgrade.txt")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program, err := process.Earlier(t.Context(), dir, strings.TrimSpace(string(commit)))
	if err != nil {
		t.Fatal(err)
	}
	before := filepath.Join(dir, "tree", "manifests", "charts", "penstock")
	u := &upgrades{releases: prepare(t)}
	p := u.place
	if err := u.lab.Load(image.Image{Name: "penstock-project/penstock:" + earlierTag, Program: program,
		Path: "/usr/local/bin/penstock"}); err != nil {
		t.Fatal(err)
	}

	replaceCRDs(t, p, before)
	u.helm("install", "penstock", before, "--create-namespace", "--set",
		"image=ghcr.io/penstock-project/penstock:"+earlierTag)
	u.replicas(2, "")
	if err := installed.Apply(t.Context(), p.REST, p.Namespace, []byte(busy)); err != nil {
		t.Fatal(err)
	}
	u.start()
	u.rolledOut(true)
	specs := u.specs()
	for round := range *rounds {
		if round%2 == 1 {
			replaceCRDs(t, p, chartDir)
		}
		u.helm("upgrade", "penstock", chartDir, "--reset-values")
		u.rolledOut(false)
		replaceCRDs(t, p, chartDir)
		u.helm("rollback", "penstock")
		u.rolledOut(true)
		replaceCRDs(t, p, before)
		u.load.Goes(100)
		sent, failed := u.load.Counts()
		t.Logf("round %d: %d requests, %d failed", round+1, sent, failed)
		if changed := cmp.Diff(specs, u.specs()); changed != "" {
			t.Fatalf("objects have changed, want none:\n%s", changed)
		}
	}
	u.load.End()
	sent, failed := u.load.Counts()
	fmt.Printf(`{"name":"upgrade_failed.lab","value":%d,"unit":"requests","limit":0}`+"\n", failed)
	fmt.Printf(`{"name":"upgrade_failed.lab_of","value":%d,"unit":"requests","limit":null}`+"\n", sent)
}

type upgrades struct {
	*releases
	load *labtest.Load
	at   string
}

func (u *upgrades) helm(args ...string) {
	u.place.Helper()
	helm(u.place.T, append(args, "--namespace", system, "--kubeconfig", u.lab.Kubeconfig(), "--wait", "--timeout",
		(2*labtest.Timeout).String())...)
}

// start waits until the Gateway serves. Then it sends requests to the Service and to the pool, and
// requests for streamed answers, each on new and on persistent connections.
func (u *upgrades) start() {
	u.place.Helper()
	var err error
	u.place.Until("the Gateway is programmed", func(ctx context.Context) error {
		u.at, err = u.address(ctx)
		return err
	})
	u.load = labtest.NewLoad(u.place.T)
	const pause = 30 * time.Millisecond
	for _, fresh := range []bool{true, false} {
		client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: fresh}}
		u.place.Cleanup(client.CloseIdleConnections)
		for _, r := range []struct {
			what, method, path, body, end string
			pause                         time.Duration
		}{
			{"a request to the Service", http.MethodGet, "/health", "", "", pause},
			{"a request to the pool", http.MethodPost, "/v1/embeddings",
				`{"model": "sim-model", "input": "one two three"}`, "", pause},
			{"a stream", http.MethodPost, "/v1/chat/completions", `{"model": "sim-model", "stream": true, ` +
				`"max_tokens": 10, "messages": [{"role": "user", "content": "one two three four five"}]}`, "[DONE]", 0},
		} {
			ask := func(ctx context.Context) error {
				return send(ctx, client, r.method, "http://"+u.at+r.path, r.body, r.end)
			}
			u.place.Until(r.what+" is answered", ask)
			u.load.Each(r.what, r.pause, ask)
		}
	}
}

// send makes a request and reads the whole response. The status must be 200, and the body must end
// with the text end.
func send(ctx context.Context, client *http.Client, method, url, body, end string) error {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("content-type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return fmt.Errorf("after %d bytes: %w", len(text), err)
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("got %s, reason %q: %s, want 200", response.Status, response.Header.Get("x-penstock-reason"),
			text)
	case !strings.HasSuffix(strings.TrimSpace(string(text)), end):
		return fmt.Errorf("got the response\n%s\nwant %s at its end", text, end)
	}
	return nil
}

// rolledOut waits until all replicas and proxies run one version, and further requests were
// answered. earlier selects the earlier version or this one. The Gateway must keep its address.
func (u *upgrades) rolledOut(earlier bool) {
	u.place.Helper()
	p := u.place
	check := func(ref string) error {
		if strings.HasSuffix(ref, ":"+earlierTag) != earlier {
			return fmt.Errorf("its image is %s, want the earlier one: %t", ref, earlier)
		}
		return nil
	}
	if err := check(p.RolledOut(system, "penstock").Spec.Template.Spec.Containers[0].Image); err != nil {
		p.Fatal(err)
	}
	p.Until("the proxies' Deployment has the version", func(ctx context.Context) error {
		d, err := p.AppsV1().Deployments(p.Namespace).Get(ctx, "gw-penstock", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return check(d.Spec.Template.Spec.InitContainers[0].Image)
	})
	p.RolledOut(p.Namespace, "gw-penstock")
	u.load.Goes(100)
	p.Until("the Gateway is programmed", func(ctx context.Context) error {
		address, err := u.address(ctx)
		if err == nil && address != u.at {
			err = errors.New("its address has changed to " + address)
		}
		return err
	})
}

func (u *upgrades) specs() map[string]any {
	u.place.Helper()
	client, err := dynamic.NewForConfig(u.place.REST)
	if err != nil {
		u.place.Fatal(err)
	}
	out := map[string]any{}
	for _, kind := range []schema.GroupVersionResource{
		{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"},
		{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"},
		{Group: "inference.networking.k8s.io", Version: "v1", Resource: "inferencepools"},
		{Group: "penstock.dev", Version: "v1alpha1", Resource: "envoyfleets"},
		{Group: "penstock.dev", Version: "v1alpha1", Resource: "poolpolicies"},
	} {
		list, err := client.Resource(kind).Namespace(u.place.Namespace).List(u.place.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			u.place.Fatalf("no %s: %v", kind.Resource, err)
		}
		for _, o := range list.Items {
			out[kind.Resource+"/"+o.GetName()] = o.Object["spec"]
		}
	}
	return out
}
