//go:build lab && linux

package chart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/installed"
	"github.com/penstock-project/penstock/conformance/lab/labtest"
)

type member struct {
	labtest.Place
	name                           string
	pools, imports, exports, gates dynamic.ResourceInterface
}

func (m *member) address() (address string) {
	m.Helper()
	m.Until("the Gateway has an address", func(ctx context.Context) error {
		gw, err := m.gates.Get(ctx, "gw", metav1.GetOptions{})
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

// in returns a namespace's objects; "" means cluster-scoped objects.
func (m *member) in(namespace, group, version, plural string) dynamic.ResourceInterface {
	m.Helper()
	client, err := dynamic.NewForConfig(m.REST)
	if err != nil {
		m.Fatal(err)
	}
	return client.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: plural}).
		Namespace(namespace)
}

// startLab starts a lab, until the test ends, in a new folder with a short path.
func startLab(ctx context.Context, t *testing.T, name string, config lab.Config) (l *lab.Lab, dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", name)
	if err != nil {
		t.Fatal(err)
	}
	config.Dir = dir
	if l, err = installed.Prepare(ctx, config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Down(); err != nil {
			t.Error(err)
		}
	})
	return l, dir
}

func twoClusters(t *testing.T) (east, west *member) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	l, _ := startLab(ctx, t, "clusterset", lab.Config{Clusters: 2})
	east, west = newMember(t, l, 0, "east"), newMember(t, l, 1, "west")
	if _, err := installed.Members(ctx, l, east.name, west.name); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*member{east, west} {
		t.Cleanup(m.logProcesses)
	}
	return east, west
}

func newMember(t *testing.T, l *lab.Lab, i int, name string) *member {
	t.Helper()
	m := &member{Place: labtest.NewPlace(t, l.Kubeconfig(), l.Contexts()[i]), name: name}
	m.pools, m.imports = m.in(team, "inference.networking.k8s.io", "v1", "inferencepools"),
		m.in(team, "inference.networking.x-k8s.io", "v1alpha1", "inferencepoolimports")
	m.exports, m.gates = m.in(team, "penstock.dev", "v1alpha1", "poolexports"),
		m.in(team, "gateway.networking.k8s.io", "v1", "gateways")
	if _, err := m.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *member) apply(manifests string) {
	m.Helper()
	if err := installed.Apply(m.Context(), m.REST, team, []byte(manifests)); err != nil {
		m.Fatal(err)
	}
}

func (m *member) processes() []corev1.Pod {
	m.Helper()
	list, err := m.CoreV1().Pods(system).List(m.Context(),
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=penstock"})
	if err != nil || len(list.Items) == 0 {
		m.Fatalf("pods of penstock: got %v, %d, want at least 1", err, len(list.Items))
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

func (m *member) annotate(value string) {
	m.Helper()
	m.patch("inference.networking.x-k8s.io/export", value)
}

func (m *member) patch(annotation, value string) {
	m.Helper()
	patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: %s}}}`, annotation, value)
	if _, err := m.pools.Patch(m.Context(), "chat", types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		m.Fatal(err)
	}
}

func (m *member) exported(ctx context.Context, status, reason string) error {
	u, err := m.pools.Get(ctx, "chat", metav1.GetOptions{})
	if err != nil {
		return err
	}
	parents, _, _ := unstructured.NestedSlice(u.Object, "status", "parents")
	for _, p := range parents {
		parent := p.(map[string]any)
		if parent["controllerName"] == "penstock.dev/multicluster-controller" {
			return condition(parent, "Exported", status, reason)
		}
	}
	return fmt.Errorf("parents: got %v, want one of the multicluster controller", parents)
}

// imported returns nil if the import's status has the form of the proposal's manifests.
func (m *member) imported(ctx context.Context) error {
	u, err := m.imports.Get(ctx, "chat", metav1.GetOptions{})
	if err != nil {
		return err
	}
	status, _, _ := unstructured.NestedMap(u.Object, "status")
	clusters, _, _ := unstructured.NestedSlice(status, "clusters")
	if len(clusters) != 1 {
		return fmt.Errorf("got status %v, want one cluster", status)
	}
	one := clusters[0].(map[string]any)
	if one["name"] != "east" || one["routingMode"] != "EndpointMode" || one["endpointPicker"] == nil ||
		one["endpoints"] != nil {
		return fmt.Errorf("got cluster %v, want east in EndpointMode with a picker, without endpoints", one)
	}
	controllers, _, _ := unstructured.NestedSlice(status, "controllers")
	var names []string
	for _, c := range controllers {
		names = append(names, fmt.Sprint(c.(map[string]any)["name"]))
	}
	slices.Sort(names)
	if strings.Join(names, " ") != "penstock.dev/gateway-controller penstock.dev/multicluster-controller" {
		return fmt.Errorf("controllers: got %v, want the gateway and the multicluster controller", names)
	}
	return errors.Join(condition(one, "Ready", "True", ""), condition(status, "Ready", "True", ""),
		condition(status, "Accepted", "True", "Accepted"))
}

func condition(in map[string]any, typ, status, reason string) error {
	list, _, _ := unstructured.NestedSlice(in, "conditions")
	for _, c := range list {
		c := c.(map[string]any)
		if c["type"] == typ && c["status"] == status && (reason == "" || c["reason"] == reason) {
			return nil
		}
	}
	return fmt.Errorf("%s: got %v, want %s (%s)", typ, list, status, reason)
}

func (m *member) killLeader() {
	m.Helper()
	leader := func(ctx context.Context) (string, int32, error) {
		lease, err := m.CoordinationV1().Leases(system).Get(ctx, "penstock", metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil || lease.Spec.LeaseTransitions == nil {
			return "", 0, errors.Join(err, errors.New("no holder"))
		}
		return *lease.Spec.HolderIdentity, *lease.Spec.LeaseTransitions, nil
	}
	holder, before, err := leader(m.Context())
	if err != nil {
		m.Fatal(err)
	}
	for _, pod := range m.processes() {
		if strings.HasPrefix(holder, pod.Name+"-") {
			if err := syscall.Kill(m.Process(pod, "serve"), syscall.SIGKILL); err != nil {
				m.Fatal(err)
			}
		}
	}
	m.Until("another process of "+m.name+" leads", func(ctx context.Context) error {
		now, transitions, err := leader(ctx)
		if err == nil && (now == holder || now == "" || transitions == before) {
			err = fmt.Errorf("%q leads, want another process than %q", now, holder)
		}
		return err
	})
}

// nothingForbidden checks that the chart's permissions are enough.
func (m *member) nothingForbidden() {
	m.Helper()
	for _, pod := range m.processes() {
		log, err := m.CoreV1().Pods(system).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(m.Context())
		if err != nil {
			m.Fatal(err)
		}
		for line := range bytes.Lines(log) {
			if bytes.Contains(line, []byte("forbidden")) || bytes.Contains(line, []byte("ValidatingAdmissionPolicy")) {
				m.Errorf("%s logged %s, want nothing forbidden", pod.Name, line)
			}
		}
	}
}

func (m *member) logProcesses() {
	if !m.Failed() {
		return
	}
	list, err := m.CoreV1().Pods(system).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		m.Error(err)
		return
	}
	for _, pod := range list.Items {
		log, _ := m.CoreV1().Pods(system).GetLogs(pod.Name, &corev1.PodLogOptions{TailLines: new(int64(60))}).
			DoRaw(context.Background())
		m.Logf("%s, pod %s:\n%s", m.name, pod.Name, log)
	}
	for what, from := range map[string]dynamic.ResourceInterface{
		"pools": m.pools, "imports": m.imports, "exports": m.exports,
	} {
		u, err := from.List(context.Background(), metav1.ListOptions{})
		if err != nil {
			m.Logf("%s, %s: %v", m.name, what, err)
			continue
		}
		for _, o := range u.Items {
			m.Logf("%s, %s: %s %v", m.name, what, o.GetName(), o.Object["status"])
		}
	}
}

func ask(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	body := `{"model": "sim-model", "max_tokens": 2, "messages": [{"role": "user", "content": "one two"}]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v1/chat/completions",
		strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}
