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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	kuberest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/installed"
)

var (
	inferencePools = schema.GroupVersionResource{Group: "inference.networking.k8s.io", Version: "v1",
		Resource: "inferencepools"}
	poolImports = schema.GroupVersionResource{Group: "inference.networking.x-k8s.io", Version: "v1alpha1",
		Resource: "inferencepoolimports"}
)

const (
	hubTurns = 15
	// hubChanges is how often one export changes.
	hubChanges = 20
)

// hubSite is a lab of two clusters with a hub: east has model servers and a picker of its own, and
// no control plane; west has Penstock and no ClusterSet.
type hubSite struct {
	east, west *cluster
	configs    map[string]*kuberest.Config
	hub        *installed.Hub
	address    string // of west's Gateway
}

// exportingText is what east has for the picker's chart, and gatewayOfHub what west has.
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

// newHubSite starts the clusters and the hub, in a folder.
func newHubSite(ctx context.Context, dir string) (s *hubSite, end func(), err error) {
	l, err := installed.Prepare(ctx, lab.Config{Dir: "../.lab-bench", Clusters: 2})
	if err != nil {
		return nil, nil, err
	}
	s = &hubSite{configs: map[string]*kuberest.Config{}}
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
	for i, name := range []string{"east", "west"} {
		config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
			&clientcmd.ClientConfigLoadingRules{ExplicitPath: l.Kubeconfig()},
			&clientcmd.ConfigOverrides{CurrentContext: l.Contexts()[i]}).ClientConfig()
		if err != nil {
			return err
		}
		config.QPS = -1
		c := &cluster{lab: l, kubeconfig: l.Kubeconfig(), namespace: "bench"}
		if c.client, err = dynamic.NewForConfig(config); err != nil {
			return err
		}
		if err := c.create(ctx, namespaces, &corev1.Namespace{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: c.namespace},
		}); err != nil {
			return err
		}
		if err := s.hub.Admit(ctx, name, config); err != nil {
			return err
		}
		*[]**cluster{&s.east, &s.west}[i], s.configs[name] = c, config
	}
	exporting, routes := strings.ReplaceAll(exportingText, "NAME", "chat"), gatewayOfHub
	for turn := range hubTurns {
		exporting += "---\n" + strings.ReplaceAll(poolOfHub, "NAME", hubPool(turn))
		routes += strings.ReplaceAll(routeOfHub, "NAME", hubPool(turn))
	}
	if err := installed.Apply(ctx, s.configs["east"], "bench", []byte(exporting)); err != nil {
		return err
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
	if err := installed.Chart(ctx, l, l.Contexts()[1], "allowedCIDRs={10.128.0.0/9},replicas=1"); err != nil {
		return err
	}
	if err := installed.Apply(ctx, s.configs["west"], "bench", []byte(routes)); err != nil {
		return err
	}
	if err := s.hub.Lead("10.128.0.0/9", "east", "west"); err != nil {
		return err
	}
	if err := s.hub.Start("1s"); err != nil {
		return err
	}
	return s.served(ctx)
}

// served waits until west's Gateway answers, which has no backend yet.
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
		if status, err := s.request(ctx, client, hubPool(0)); err != nil || status != http.StatusInternalServerError {
			return fmt.Errorf("the Gateway answers %d: %w", status, err)
		}
		return nil
	})
}

// request sends a chat completion to a pool through west's Gateway.
func (s *hubSite) request(ctx context.Context, client *http.Client, pool string) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.address+"/v1/chat/completions",
		strings.NewReader(`{"model":"sim-model","max_tokens":1,"messages":[{"role":"user","content":"a"}]}`))
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

// annotate writes an annotation of a pool in east, and returns the version.
func (s *hubSite) annotate(ctx context.Context, pool, key, value string) (version string, err error) {
	u, err := s.east.client.Resource(inferencePools).Namespace("bench").
		Patch(ctx, pool, types.MergePatchType, fmt.Appendf(nil, `{"metadata": {"annotations": {%q: %q}}}`, key, value),
			metav1.PatchOptions{})
	if err != nil {
		return "", err
	}
	return u.GetResourceVersion(), nil
}

// measureHub measures from an annotation to a request in another cluster, with a hub, and counts
// what it writes.
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
	imports, err := s.west.inform(ctx, poolImports)
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
	return s.countWrites(ctx, watched, imports, out)
}

// countWrites counts the versions of an import in west, and of its pool in east, while one export
// changes, and those of all while the hub starts again.
func (s *hubSite) countWrites(ctx context.Context, pools, imports *informer, out report) error {
	name := hubPool(0)
	weighs := func(want string) error {
		return eventually(ctx, func() error {
			if imports.having(func(u *unstructured.Unstructured) bool {
				clusters, _, _ := unstructured.NestedSlice(u.Object, "status", "clusters")
				return u.GetName() == name && len(clusters) == 1 &&
					fmt.Sprint(clusters[0].(map[string]any)["weight"]) == want
			}) != 1 {
				return fmt.Errorf("the import of %s has no weight of %s", name, want)
			}
			return nil
		})
	}
	if err := s.exported(ctx, pools); err != nil {
		return err
	}
	before := imports.events(name)
	for n := range hubChanges {
		weight := fmt.Sprint(n + 2)
		if _, err := s.annotate(ctx, name, "penstock.dev/export-weight", weight); err != nil {
			return err
		}
		if err := weighs(weight); err != nil {
			return err
		}
	}
	out("mc_hub_writes", "", float64(imports.events(name)-before)/hubChanges)

	s.hub.Kill()
	total := func() (n int) {
		for turn := range hubTurns {
			n += pools.events(hubPool(turn)) + imports.events(hubPool(turn))
		}
		return n
	}
	before = total()
	if err := s.hub.Start("1s"); err != nil {
		return err
	}
	// Once the new hub has written another pool's import, it has read all.
	if _, err := s.annotate(ctx, "chat", "inference.networking.x-k8s.io/export", "ClusterSet"); err != nil {
		return err
	}
	if err := eventually(ctx, func() error {
		if imports.having(func(u *unstructured.Unstructured) bool {
			clusters, _, _ := unstructured.NestedSlice(u.Object, "status", "clusters")
			return u.GetName() == "chat" && len(clusters) == 1
		}) != 1 {
			return errors.New("the new hub has not written the marker")
		}
		return s.exported(ctx, pools)
	}); err != nil {
		return err
	}
	out("mc_hub_writes_restart", "", float64(total()-before))
	return nil
}

// exported waits until all exported pools are Exported.
func (s *hubSite) exported(ctx context.Context, pools *informer) error {
	return eventually(ctx, func() error {
		if n := pools.having(func(u *unstructured.Unstructured) bool {
			_, asked := u.GetAnnotations()["inference.networking.x-k8s.io/export"]
			return asked && !strings.Contains(fmt.Sprint(u.Object["status"]), "reason:Exported")
		}); n > 0 {
			return fmt.Errorf("%d pools are not Exported", n)
		}
		return nil
	})
}
