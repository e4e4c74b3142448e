package installed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
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
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/conformance/lab"
)

// System is the namespace of an installed Penstock.
const System = "penstock-system"

// Exported are the namespaces whose pools members may export by default.
var Exported = []string{"bench", "later", "team"}

// PeerPort is the port of the Service over which members exchange exports.
const PeerPort = 18443

// Chart installs Penstock's chart in a cluster of a lab, and waits until Penstock is ready. values
// is for helm's --set.
func Chart(ctx context.Context, l *lab.Lab, at, values string) error {
	root, err := lab.Repository()
	if err != nil {
		return err
	}
	helm := exec.CommandContext(ctx, filepath.Join(root, ".tools", "bin", "helm"), "install", "penstock",
		filepath.Join(root, "manifests", "charts", "penstock"),
		"--namespace", System, "--create-namespace", "--skip-crds", "--kubeconfig", l.Kubeconfig(), "--kube-context",
		at, "--wait", "--timeout", "5m", "--set", values)
	if out, err := helm.CombinedOutput(); err != nil {
		return fmt.Errorf("install Penstock's chart in %s: %w: %s", at, err, out)
	}
	return nil
}

// Member is a cluster of a set, with Penstock from its chart.
type Member struct {
	Name   string
	Config *rest.Config
	Client *kubernetes.Clientset
	// Outside is the machine's address outside the lab, as the cluster's pods reach it.
	Outside string
	peer    string
}

// Spec configures a member's ClusterSet.
type Spec struct {
	PodCIDRs []string
	Draining bool
	Members  []*Member
	// Namespaces are the namespaces whose pools each of Members may export; empty means Exported.
	Namespaces []string
	// PeerListener is the port at which the member's Gateways listen for other members; 0 disables
	// it.
	PeerListener int
}

// Members installs Penstock in one cluster of a lab for each name, and joins the clusters to one
// set. A member may dial the others' model servers, and its picker serves the other members.
func Members(ctx context.Context, l *lab.Lab, names ...string) ([]*Member, error) {
	var all []*Member
	for i, name := range names {
		m, err := newMember(ctx, l, l.Contexts()[i], name)
		if err != nil {
			return nil, fmt.Errorf("cluster %s: %w", name, err)
		}
		all = append(all, m)
	}
	for _, m := range all {
		if err := m.Join(ctx, Spec{Members: m.Others(all)}); err != nil {
			return nil, fmt.Errorf("cluster %s: %w", m.Name, err)
		}
	}
	return all, nil
}

// Others returns all members except m.
func (m *Member) Others(all []*Member) (others []*Member) {
	for _, o := range all {
		if o != m {
			others = append(others, o)
		}
	}
	return others
}

func newMember(ctx context.Context, l *lab.Lab, at, name string) (*Member, error) {
	m := &Member{Name: name}
	var err error
	m.Config, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: l.Kubeconfig()},
		&clientcmd.ConfigOverrides{CurrentContext: at}).ClientConfig()
	if err != nil {
		return nil, err
	}
	if m.Client, err = kubernetes.NewForConfig(m.Config); err != nil {
		return nil, err
	}
	server, err := url.Parse(m.Config.Host)
	if err != nil {
		return nil, err
	}
	node, err := netip.ParseAddr(server.Hostname())
	if err != nil {
		return nil, fmt.Errorf("the lab's API server has no address: %w", err)
	}
	m.Outside = node.Next().String()
	if err := Chart(ctx, l, at, "clusterSet.enabled=true,clusterSet.address="+m.placeholder()+
		",allowedCIDRs={10.128.0.0/9},args={--picker-open,--drain-time=5s}"); err != nil {
		return nil, err
	}
	if err := m.Join(ctx, Spec{}); err != nil {
		return nil, err
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, 2*time.Minute, true,
		func(ctx context.Context) (bool, error) {
			m.peer, last = m.shown(ctx)
			return last == nil, nil
		})
	if err != nil {
		return nil, errors.Join(err, last)
	}
	return m, nil
}

func (m *Member) placeholder() string { return fmt.Sprintf("%s.example.com:%d", m.Name, PeerPort) }

func (m *Member) shown(ctx context.Context) (string, error) {
	svc, err := m.Client.CoreV1().Services(System).Get(ctx, "penstock-members", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if len(svc.Status.LoadBalancer.Ingress) == 0 {
		return "", errors.New("the Service penstock-members has no address")
	}
	list, err := m.Processes(ctx)
	if err != nil || len(list) == 0 {
		return "", errors.Join(err, errors.New("no pod of penstock"))
	}
	text, err := m.Penstock(ctx, list[0].Name, "", "clusters", "show", "--state", "/run/penstock/state")
	if err != nil {
		return "", err
	}
	return strings.Replace(text, m.placeholder(), fmt.Sprintf("%s:%d", svc.Status.LoadBalancer.Ingress[0].IP, PeerPort),
		1), nil
}

// Processes returns the pods of Penstock that are not being deleted.
func (m *Member) Processes(ctx context.Context) (pods []corev1.Pod, err error) {
	list, err := m.Client.CoreV1().Pods(System).List(ctx,
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=penstock"})
	if err != nil {
		return nil, err
	}
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			pods = append(pods, p)
		}
	}
	return pods, nil
}

// Peer is the member's entry for the ClusterSets of other clusters.
func (m *Member) Peer() string { return m.peer }

// Penstock runs penstock in a pod, as kubectl exec does, and returns the output.
func (m *Member) Penstock(ctx context.Context, pod, input string, args ...string) (string, error) {
	req := m.Client.CoreV1().RESTClient().Post().Resource("pods").Namespace(System).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Command: append([]string{"penstock"}, args...), Stdin: input != "", Stdout: true, Stderr: true,
		}, scheme.ParameterCodec)
	run, err := remotecommand.NewSPDYExecutor(m.Config, "POST", req.URL())
	if err != nil {
		return "", err
	}
	var out, errs bytes.Buffer
	options := remotecommand.StreamOptions{Stdout: &out, Stderr: &errs}
	if input != "" {
		options.Stdin = strings.NewReader(input)
	}
	if err := run.StreamWithContext(ctx, options); err != nil {
		return "", fmt.Errorf("penstock %s: %w: %s", strings.Join(args, " "), err, errs.Bytes())
	}
	return out.String(), nil
}

func entry(shown string, namespaces []string) (string, error) {
	var list []map[string]any
	if err := yaml.Unmarshal([]byte(shown), &list); err != nil {
		return "", fmt.Errorf("what penstock clusters show prints: %w", err)
	}
	for _, m := range list {
		m["allow"] = map[string]any{"namespaces": namespaces, "cleartext": true}
	}
	raw, err := yaml.Marshal(list)
	return "  " + strings.ReplaceAll(strings.TrimSpace(string(raw)), "\n", "\n  ") + "\n", err
}

// Join replaces the member's ClusterSet.
func (m *Member) Join(ctx context.Context, spec Spec) error {
	text := "apiVersion: penstock.dev/v1alpha1\nkind: ClusterSet\nmetadata: {name: gpus}\nspec:\n  cluster: " + m.Name +
		"\n"
	if len(spec.PodCIDRs) > 0 {
		text += "  podCIDRs: [" + strings.Join(spec.PodCIDRs, ", ") + "]\n"
	}
	if spec.Draining {
		text += "  draining: true\n"
	}
	if spec.PeerListener > 0 {
		text += fmt.Sprintf("  peerListener: {port: %d}\n", spec.PeerListener)
	}
	if len(spec.Members) > 0 {
		text += "  members:\n"
	}
	namespaces := spec.Namespaces
	if len(namespaces) == 0 {
		namespaces = Exported
	}
	for _, o := range spec.Members {
		member, err := entry(o.peer, namespaces)
		if err != nil {
			return err
		}
		text += member
	}
	return Apply(ctx, m.Config, "", []byte(text))
}
