//go:build lab && linux

package members

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/installed"
	"github.com/penstock-project/penstock/conformance/lab/labtest"
	"github.com/penstock-project/penstock/conformance/lab/network"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

const team = "team"

// pools are the pools' names. Each is also the first label of the pool's host name.
var pools = []string{"chat", "epp"}

// exporting are an exporter's objects, with a format verb for the exporter's name. In ParentMode,
// requests arrive at its Gateway.
const exporting = `
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
        args: [sim, --port=8000, --name=%[1]s-$(POD_NAME), --time-to-first-token=20ms, --inter-token-latency=250ms]
        env: [{name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        readinessProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 1}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: chat, annotations: {inference.networking.x-k8s.io/export: ClusterSet}}
spec: {selector: {matchLabels: {app: chat}}, targetPorts: [{number: 8000}]}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: epp, annotations: {inference.networking.x-k8s.io/export: ClusterSet}}
spec:
  selector: {matchLabels: {app: chat}}
  targetPorts: [{number: 8000}]
  endpointPickerRef: {name: epp-epp, port: {number: 9002}, failureMode: FailClose}
` + gateway

// gateway has a route for each host to the backend of that name, with format verbs for the
// backends' group and kind.
const gateway = `
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec: {gatewayClassName: penstock, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat}
spec: {parentRefs: [{name: gw}], hostnames: [chat.example], rules: [{backendRefs: [{group: %[2]s, kind: %[3]s, name: chat}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: epp}
spec: {parentRefs: [{name: gw}], hostnames: [epp.example], rules: [{backendRefs: [{group: %[2]s, kind: %[3]s, name: epp}]}]}
`

var (
	running *lab.Lab
	members []*installed.Member // in the order east, north, west
)

var (
	measured figures
	printed  = flag.Bool("figures", false,
		"print failed requests and the longest delay as figures of conformance/bench")
)

func TestMain(m *testing.M) {
	code := labtest.Main(m, func(ctx context.Context, dir string) (l *lab.Lab, err error) {
		if running, err = installed.Prepare(ctx, lab.Config{Dir: dir, Clusters: 3}); err == nil {
			err = furnish(ctx)
		}
		return running, err
	}, nil)
	if *printed {
		if err := measured.print(os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func furnish(ctx context.Context) (err error) {
	if members, err = installed.Members(ctx, running, "east", "north", "west"); err != nil {
		return err
	}
	for i, m := range members {
		if err := m.Join(ctx, spec(m, false, m.Others(members)...)); err != nil {
			return err
		}
		if _, err := m.Client.CoreV1().Namespaces().Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}}, metav1.CreateOptions{}); err != nil {
			return err
		}
		text := fmt.Sprintf(exporting, m.Name, "inference.networking.k8s.io", "InferencePool")
		if m.Name == "west" {
			text = fmt.Sprintf(gateway, "", "inference.networking.x-k8s.io", "InferencePoolImport")
		} else {
			helm := exec.CommandContext(ctx, "../../../.tools/bin/helm", "install", "epp",
				"../../../manifests/charts/picker", "--namespace", team,
				"--kubeconfig", running.Kubeconfig(), "--kube-context", running.Contexts()[i],
				"--set",
				"pool.create=false,pool.name=epp,replicas=1,networkPolicy.enabled=false,allowedCIDRs={10.128.0.0/9}")
			if out, err := helm.CombinedOutput(); err != nil {
				return fmt.Errorf("install the picker's chart: %w: %s", err, out)
			}
		}
		if err := installed.Apply(ctx, m.Config, team, []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

func spec(m *installed.Member, draining bool, others ...*installed.Member) installed.Spec {
	return installed.Spec{PodCIDRs: []string{"10.128.0.0/9"}, Draining: draining, Members: others}
}

type site struct {
	*testing.T
	east, north, west *cluster
	load              *load
}

type cluster struct {
	labtest.Place
	*installed.Member
	context string
	dynamic dynamic.Interface
}

// newSite waits until both exporters serve the importer's Gateway. Then it sends requests to the
// pools in to; none means all pools.
func newSite(t *testing.T, to ...string) *site {
	t.Helper()
	s := newQuietSite(t)
	s.ready("east", "north")
	if len(to) == 0 {
		to = pools
	}
	s.begins(to...)
	return s
}

func (s *site) begins(to ...string) {
	s.Helper()
	s.load = newLoad(s.T, s.west.address(), to...)
	s.load.serves("east", "north")
}

func newQuietSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t}
	t.Cleanup(func() { measured.experiment(t.Failed()) })
	for i, member := range []**cluster{&s.east, &s.north, &s.west} {
		m := members[i]
		c := &cluster{Place: labtest.Place{T: t, Clientset: m.Client, REST: m.Config, Namespace: team}, Member: m,
			context: running.Contexts()[i]}
		var err error
		if c.dynamic, err = dynamic.NewForConfig(m.Config); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.logProcesses)
		*member = c
	}
	return s
}

// ends waits until the set is complete and both exporters serve again. Then it ends the requests.
// No request may have failed.
func (s *site) ends() {
	s.Helper()
	s.ready("east", "north")
	s.load.serves("east", "north")
	s.load.End()
	s.load.counted()
}

// ready waits until the imports have exactly these clusters, and all these clusters accept
// requests.
func (s *site) ready(names ...string) {
	s.Helper()
	s.imports(strings.Join(names, " ")+" are ready", func(entries map[string]map[string]any) error {
		if len(entries) != len(names) {
			return fmt.Errorf("clusters: got %v, want %v", entries, names)
		}
		for _, name := range names {
			if err := condition(entries[name], "True", "Ready"); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})
}

func (s *site) states(name, status, reason string) {
	s.Helper()
	s.imports(name+" is "+status+" "+reason, func(entries map[string]map[string]any) error {
		return condition(entries[name], status, reason)
	})
}

// imports waits until holds accepts the clusters' entries in the status of the importer's
// InferencePoolImports.
func (s *site) imports(what string, holds func(map[string]map[string]any) error) {
	s.Helper()
	for _, pool := range pools {
		s.imported(pool, what, holds)
	}
}

func (s *site) imported(pool, what string, holds func(map[string]map[string]any) error) {
	s.Helper()
	s.west.Until(what+" in import "+pool, func(ctx context.Context) error {
		u, err := s.west.kind("inference.networking.x-k8s.io", "v1alpha1", "inferencepoolimports").
			Get(ctx, pool, metav1.GetOptions{})
		if err != nil {
			return err
		}
		entries := map[string]map[string]any{}
		clusters, _, _ := unstructured.NestedSlice(u.Object, "status", "clusters")
		for _, c := range clusters {
			c := c.(map[string]any)
			entries[fmt.Sprint(c["name"])] = c
		}
		return holds(entries)
	})
}

func condition(in map[string]any, status, reason string) error {
	list, _, _ := unstructured.NestedSlice(in, "conditions")
	for _, c := range list {
		c := c.(map[string]any)
		if c["type"] == "Ready" && c["status"] == status && (reason == "" || c["reason"] == reason) {
			return nil
		}
	}
	return fmt.Errorf("ready: got %v, want %s (%s)", list, status, reason)
}

func (c *cluster) kind(group, version, plural string) dynamic.ResourceInterface {
	return c.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: plural}).
		Namespace(team)
}

func (c *cluster) address() (address string) {
	c.Helper()
	c.Until("the Gateway has an address", func(ctx context.Context) error {
		gw, err := c.kind("gateway.networking.k8s.io", "v1", "gateways").Get(ctx, "gw", metav1.GetOptions{})
		if err != nil {
			return err
		}
		list, _, _ := unstructured.NestedSlice(gw.Object, "status", "addresses")
		if len(list) == 0 {
			return errors.New("none")
		}
		address, _, _ = unstructured.NestedString(list[0].(map[string]any), "value")
		return nil
	})
	return address
}

func (c *cluster) annotate(key, value string) {
	c.Helper()
	for _, pool := range pools {
		patch := fmt.Sprintf(`{"metadata": {"annotations": {"inference.networking.x-k8s.io/%s": %s}}}`, key, value)
		if _, err := c.kind("inference.networking.k8s.io", "v1", "inferencepools").
			Patch(c.Context(), pool, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			c.Fatal(err)
		}
	}
}

func (c *cluster) join(draining bool, others ...*cluster) {
	c.Helper()
	var list []*installed.Member
	for _, o := range others {
		list = append(list, o.Member)
	}
	if err := c.Join(c.Context(), spec(c.Member, draining, list...)); err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) joins(others ...*cluster) {
	c.Helper()
	var peers string
	for _, o := range others {
		peers += o.Peer()
	}
	set, err := c.penstock(c.Context(), peers, "clusters", "join", "--http", "127.0.0.1:9091",
		"--allow-namespaces", strings.Join(installed.Exported, ","), "-")
	if err == nil {
		set, err = allowCleartext(set)
	}
	if err == nil {
		err = installed.Apply(c.Context(), c.Config, "", []byte(set))
	}
	if err != nil {
		c.Fatal(err)
	}
}

// allowCleartext sets allow.cleartext for each member of a ClusterSet, because this test's gateways
// for ParentMode have no TLS.
func allowCleartext(text string) (string, error) {
	var set v1alpha1.ClusterSet
	if err := yaml.UnmarshalStrict([]byte(text), &set); err != nil {
		return "", fmt.Errorf("what penstock clusters join prints: %w", err)
	}
	for i := range set.Spec.Members {
		set.Spec.Members[i].Allow.Cleartext = true
	}
	out, err := yaml.Marshal(set)
	return string(out), err
}

func (c *cluster) lists(want string) {
	c.Helper()
	c.Until(c.Name+" lists "+want, func(ctx context.Context) error {
		text, err := c.penstock(ctx, "", "clusters", "list", "--http", "127.0.0.1:9091")
		if err == nil && !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			err = errors.New(text)
		}
		return err
	})
}

func (c *cluster) penstock(ctx context.Context, input string, args ...string) (string, error) {
	list, err := c.Processes(ctx)
	if err != nil || len(list) == 0 {
		return "", fmt.Errorf("processes of penstock: got %w, %d, want some", err, len(list))
	}
	return c.Member.Penstock(ctx, list[0].Name, input, args...)
}

// kill kills all processes of Penstock at once. It returns when new processes are ready.
func (c *cluster) kill() {
	c.Helper()
	list, err := c.Processes(c.Context())
	if err != nil || len(list) == 0 {
		c.Fatalf("processes of penstock: got %v, %d, want some", err, len(list))
	}
	var pids []int
	for _, pod := range list {
		pids = append(pids, c.Process(pod, "serve"))
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			c.Fatal(err)
		}
	}
	c.Until("the processes of "+c.Name+" have started again", func(ctx context.Context) error {
		for _, before := range list {
			now, err := c.CoreV1().Pods(installed.System).Get(ctx, before.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if now.Status.ContainerStatuses[0].RestartCount <= before.Status.ContainerStatuses[0].RestartCount ||
				!labtest.Ready(now.Status) {
				return fmt.Errorf("%s: got %+v, want it ready after a restart", now.Name,
					now.Status.ContainerStatuses[0])
			}
		}
		return nil
	})
}

func (c *cluster) scale(n int) {
	c.Helper()
	patch := fmt.Sprintf(`{"spec": {"replicas": %d}}`, n)
	if _, err := c.AppsV1().Deployments(installed.System).Patch(c.Context(), "penstock", types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{}); err != nil {
		c.Fatal(err)
	}
	c.RolledOut(installed.System, "penstock")
}

func (s *site) control(from, to *cluster, oneWay bool, effect network.Effect) {
	s.Helper()
	f := network.Fault{Effect: effect}
	if effect != network.Heal {
		f.Port = installed.PeerPort
	}
	s.link(lab.Link{From: from.context, To: to.context, OneWay: oneWay, Fault: f})
}

// faults sets the fault of packets between the importer and the first exporter.
func (s *site) faults(f network.Fault) {
	s.Helper()
	s.link(lab.Link{From: s.east.context, To: s.west.context, Fault: f})
}

func (s *site) link(l lab.Link) {
	s.Helper()
	if err := running.Link(context.WithoutCancel(s.Context()), l); err != nil {
		s.Fatal(err)
	}
}

func (c *cluster) logProcesses() {
	if !c.Failed() {
		return
	}
	list, err := c.Processes(context.Background())
	if err != nil {
		c.Error(err)
		return
	}
	for _, pod := range list {
		log, _ := c.CoreV1().Pods(installed.System).GetLogs(pod.Name, &corev1.PodLogOptions{TailLines: new(int64(25))}).
			DoRaw(context.Background())
		c.Logf("%s, pod %s:\n%s", c.Name, pod.Name, log)
	}
}
