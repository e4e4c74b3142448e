package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/installed"
)

const hubTurns = 15

// hubSite is a lab of two clusters with a hub: east has model servers and a picker, and no control
// plane; west has Penstock and no ClusterSet.
type hubSite struct {
	east, west *cluster
	hub        *installed.Hub
	address    string // of west's Gateway
}

// What east has for the picker's chart, and what west has.
const (
	exportingText = `apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  replicas: 1
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec:
      containers:
      - name: server
        image: ghcr.io/penstock-project/penstock:0.1.0
        args: [sim, --port=8000, --time-to-first-token=0s, --inter-token-latency=0s]
        readinessProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 1}
---
` + poolOfHub
	poolOfHub = `apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: NAME}
spec:
  selector: {matchLabels: {app: chat}}
  targetPorts: [{number: 8000}]
  endpointPickerRef: {name: chat-epp, port: {number: 9002}}
`
	gatewayOfHub = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec: {gatewayClassName: penstock, listeners: [{name: http, port: 80, protocol: HTTP}]}
`
	routeOfHub = `---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: NAME}
spec:
  parentRefs: [{name: gw}]
  hostnames: [NAME.example]
  rules: [{backendRefs: [{group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: NAME}]}]
`
)

func hubPool(turn int) string { return fmt.Sprintf("pool%d", turn) }

func newHubSite(ctx context.Context, dir string) (s *hubSite, end func(), err error) {
	l, err := installed.Prepare(ctx, lab.Config{Dir: "../.lab-bench", Clusters: 2})
	if err != nil {
		return nil, nil, err
	}
	s = &hubSite{}
	end = func() {
		if s.hub != nil {
			s.hub.Kill()
		}
		if err := l.Down(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}
	if err := s.furnish(ctx, l, dir); err != nil {
		end()
		return nil, nil, err
	}
	return s, end, nil
}

func (s *hubSite) furnish(ctx context.Context, l *lab.Lab, dir string) (err error) {
	if s.hub, err = installed.NewHub(dir); err != nil {
		return err
	}
	exporting, routes := strings.ReplaceAll(exportingText, "NAME", "chat"), gatewayOfHub
	for turn := range hubTurns {
		exporting += "---\n" + strings.ReplaceAll(poolOfHub, "NAME", hubPool(turn))
		routes += strings.ReplaceAll(routeOfHub, "NAME", hubPool(turn))
	}
	for i, member := range []struct {
		name, objects string
		cluster       **cluster
	}{{"east", exporting, &s.east}, {"west", routes, &s.west}} {
		config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
			&clientcmd.ClientConfigLoadingRules{ExplicitPath: l.Kubeconfig()},
			&clientcmd.ConfigOverrides{CurrentContext: l.Contexts()[i]}).ClientConfig()
		if err != nil {
			return err
		}
		if *member.cluster, err = inLab(ctx, l, config); err != nil {
			return err
		}
		if err := s.hub.Admit(ctx, member.name, config); err != nil {
			return err
		}
		if member.name == "west" {
			if err := installed.Chart(ctx, l, l.Contexts()[1], "allowedCIDRs={10.128.0.0/9},replicas=1"); err != nil {
				return err
			}
		}
		if err := installed.Apply(ctx, config, "bench", []byte(member.objects)); err != nil {
			return err
		}
	}
	root, err := lab.Repository()
	if err != nil {
		return err
	}
	helm := exec.CommandContext(ctx, root+"/.tools/bin/helm", "install", "chat", root+"/manifests/charts/picker",
		"--namespace", "bench", "--kubeconfig", l.Kubeconfig(), "--kube-context", l.Contexts()[0],
		"--wait", "--timeout", "3m", "--set",
		"pool.create=false,pool.name=chat,replicas=1,networkPolicy.enabled=false,allowedCIDRs={10.128.0.0/9}")
	if out, err := helm.CombinedOutput(); err != nil {
		return fmt.Errorf("install the picker's chart: %w: %s", err, out)
	}
	if err := s.hub.Lead("10.128.0.0/9", "east", "west"); err != nil {
		return err
	}
	if err := s.hub.Start("1s"); err != nil {
		return err
	}
	return s.served(ctx)
}

func (s *hubSite) served(ctx context.Context) error {
	client := &http.Client{Timeout: time.Second}
	return eventually(ctx, func() error {
		gw, err := s.west.client.Resource(gateways).Namespace("bench").Get(ctx, "gw", metav1.GetOptions{})
		if err != nil {
			return err
		}
		list, _, _ := unstructured.NestedSlice(gw.Object, "status", "addresses")
		if len(list) == 0 {
			return errors.New("the Gateway has no address")
		}
		s.address, _, _ = unstructured.NestedString(list[0].(map[string]any), "value")
		if status, err := s.request(ctx, client, hubPool(0)); status != http.StatusInternalServerError {
			return fmt.Errorf("the Gateway answers %d: %w", status, err)
		}
		return nil
	})
}

func (s *hubSite) request(ctx context.Context, client *http.Client, pool string) (status int, err error) {
	req, err := jsonRequest(ctx, "http://"+s.address+"/"+chatPath,
		`{"model":"sim-model","max_tokens":1,"messages":[{"role":"user","content":"a"}]}`)
	if err != nil {
		return 0, err
	}
	req.Host = pool + ".example"
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

func (s *hubSite) annotate(ctx context.Context, pool, key, value string) (version string, err error) {
	u, err := s.east.client.Resource(inferencePools).Namespace("bench").
		Patch(ctx, pool, types.MergePatchType, fmt.Appendf(nil, `{"metadata": {"annotations": {%q: %q}}}`, key, value),
			metav1.PatchOptions{})
	if err != nil {
		return "", err
	}
	return u.GetResourceVersion(), nil
}

func measureHub(ctx context.Context, _ config, out report) error {
	dir, err := os.MkdirTemp("", "hub")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s, end, err := newHubSite(ctx, dir)
	if err != nil {
		return err
	}
	defer end()
	watched, err := s.east.inform(ctx, inferencePools)
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: timeout}
	var ours, events []time.Duration
	for turn := range hubTurns {
		start := time.Now()
		version, err := s.annotate(ctx, hubPool(turn), "bench", "noted")
		if err != nil {
			return err
		}
		at, err := watched.at(ctx, version)
		if err != nil {
			return err
		}
		events = append(events, at.Sub(start))
		start = time.Now()
		if _, err := s.annotate(ctx, hubPool(turn), "inference.networking.x-k8s.io/export", "ClusterSet"); err != nil {
			return err
		}
		for status := 0; status != http.StatusOK; {
			if status, err = s.request(ctx, client, hubPool(turn)); err != nil {
				return err
			}
			if time.Since(start) > timeout {
				return fmt.Errorf("%s never serves (%d): %s", hubPool(turn), status, s.hub.Log())
			}
		}
		ours = append(ours, time.Since(start))
	}
	out("mc_export_to_request_hub", "", float64(median(ours))/float64(median(events)))
	out("mc_export_to_request_hub", "ours", milliseconds(median(ours)))
	out("mc_export_to_request_hub", "event", milliseconds(median(events)))
	return nil
}
