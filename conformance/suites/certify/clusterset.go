package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/installed"
)

// clusterSetName is the suite's name. It is not among suites: it is no official one, and runs in several clusters.
const clusterSetName = "clusterset"

// system is Penstock's namespace.
const system = "penstock-system"

// clusterSet runs the suite of cluster sets (suites/clusterset) in a lab of three clusters, each a member of the others' set.
func clusterSet(ctx context.Context, c config) (err error) {
	if c.kubeconfig != "" {
		return errors.New("clusterset: it needs several clusters: run bin/clusterset-conformance on yours")
	}
	names := []string{"east", "west", "north"}
	l, err := installed.Prepare(ctx, lab.Config{Dir: "../.lab-clusterset", Clusters: len(names)})
	if err != nil {
		return fmt.Errorf("clusterset: %w", err)
	}
	defer func() { err = errors.Join(err, l.Down()) }()
	var members []*clusterMember
	var pairs, addresses []string
	for i, name := range names {
		m, err := newMember(ctx, l.Kubeconfig(), l.Contexts()[i], name)
		if err != nil {
			return fmt.Errorf("clusterset: cluster %s: %w", name, err)
		}
		members, pairs, addresses = append(members, m), append(pairs, name+"="+l.Contexts()[i]), append(addresses, m.outside)
	}
	for _, m := range members {
		if err := m.join(ctx, members); err != nil {
			return fmt.Errorf("clusterset: cluster %s: %w", m.name, err)
		}
	}
	args := []string{"-kubeconfig", l.Kubeconfig(), "-clusters", strings.Join(pairs, ","), "-shape=seed", "-gateway-class=penstock",
		"-addresses", strings.Join(addresses[:2], ","), "-run", c.test, "-organization=penstock-project", "-project=penstock", "-version", c.version,
		"-url=https://github.com/penstock-project/penstock", "-contact=https://github.com/penstock-project/penstock/issues"}
	report := filepath.Join(c.reports, "clusterset.yaml")
	if c.test == "" {
		args = append(args, "-report", report)
	}
	cmd := exec.CommandContext(ctx, "../bin/clusterset-conformance", args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil || c.test != "" {
		return err
	}
	text, err := os.ReadFile(report)
	if err != nil {
		return err
	}
	return read(text)
}

// clusterMember is a cluster of the set.
type clusterMember struct {
	name    string
	config  *rest.Config
	client  kubernetes.Interface
	peer    string // the entry of spec.members that makes it a member of the others' sets
	outside string // address of this machine, as the cluster reaches it
}

// newMember installs Penstock in a cluster, and gives it a name.
func newMember(ctx context.Context, kubeconfig, at, name string) (*clusterMember, error) {
	m := &clusterMember{name: name}
	var err error
	m.config, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}, &clientcmd.ConfigOverrides{CurrentContext: at}).ClientConfig()
	if err != nil {
		return nil, err
	}
	if m.client, err = kubernetes.NewForConfig(m.config); err != nil {
		return nil, err
	}
	server, err := url.Parse(m.config.Host)
	if err != nil {
		return nil, err
	}
	node, err := netip.ParseAddr(server.Hostname())
	if err != nil {
		return nil, fmt.Errorf("the lab's API server has no address: %w", err)
	}
	m.outside = node.Next().String() // network.Plan.Outside
	helm := exec.CommandContext(ctx, "../.tools/bin/helm", "install", "penstock", "../manifests/charts/penstock", "--namespace", system, "--create-namespace", "--skip-crds",
		"--kubeconfig", kubeconfig, "--kube-context", at, "--wait", "--timeout", "5m",
		"--set", "clusterSet.enabled=true,clusterSet.address="+m.placeholder()+",allowedCIDRs={10.128.0.0/9},args={--picker-open,--drain-time=5s}")
	if out, err := helm.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("helm: %w: %s", err, out)
	}
	if err := m.apply(ctx, nil); err != nil {
		return nil, err
	}
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		m.peer, err = m.shown(ctx)
		return err == nil, nil // reported if it persists
	})
	return m, err
}

// placeholder is the address in the chart's values: that of its Service is not known before the installation.
func (m *clusterMember) placeholder() string { return m.name + ".example.com:18443" }

// shown is what `penstock clusters show` prints, with the Service's address.
func (m *clusterMember) shown(ctx context.Context) (string, error) {
	svc, err := m.client.CoreV1().Services(system).Get(ctx, "penstock-members", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if len(svc.Status.LoadBalancer.Ingress) == 0 {
		return "", errors.New("the Service penstock-members has no address")
	}
	list, err := m.client.CoreV1().Pods(system).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=penstock"})
	if err != nil || len(list.Items) == 0 {
		return "", errors.Join(err, errors.New("no pod of penstock"))
	}
	req := m.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(system).Name(list.Items[0].Name).SubResource("exec").VersionedParams(&corev1.PodExecOptions{
		Command: []string{"penstock", "clusters", "show", "--state", "/run/penstock/state"}, Stdout: true, Stderr: true,
	}, scheme.ParameterCodec)
	run, err := remotecommand.NewSPDYExecutor(m.config, "POST", req.URL())
	if err != nil {
		return "", err
	}
	var out, errs bytes.Buffer
	if err := run.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &errs}); err != nil {
		return "", fmt.Errorf("penstock clusters show: %w: %s", err, errs.Bytes())
	}
	return strings.Replace(out.String(), m.placeholder(), svc.Status.LoadBalancer.Ingress[0].IP+":18443", 1), nil
}

// join makes the others members of the cluster's set.
func (m *clusterMember) join(ctx context.Context, all []*clusterMember) error {
	var others []string
	for _, o := range all {
		if o != m {
			others = append(others, o.peer)
		}
	}
	return m.apply(ctx, others)
}

// apply applies the ClusterSet.
func (m *clusterMember) apply(ctx context.Context, members []string) error {
	text := "apiVersion: penstock.dev/v1alpha1\nkind: ClusterSet\nmetadata: {name: conformance}\nspec:\n  cluster: " + m.name + "\n"
	if len(members) > 0 {
		text += "  members:\n"
	}
	for _, member := range members {
		text += "  " + strings.ReplaceAll(strings.TrimSpace(member), "\n", "\n  ") + "\n"
	}
	return installed.Apply(ctx, m.config, "", []byte(text))
}
