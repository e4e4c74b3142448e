//go:build lab && linux

package chart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/installed"
	"github.com/penstock-project/penstock/conformance/lab/labtest"
)

// keys has the volume of a hub that relays: a folder of the node, which the kubelet gives to the pod's group as it does with a disk.
const keys = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: penstock-hub}
spec:
  capacity: {storage: 1Mi}
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  local: {path: %q}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: penstock-hub}
spec: {accessModes: [ReadWriteOnce], storageClassName: "", volumeName: penstock-hub, resources: {requests: {storage: 1Mi}}}
`

// Two clusters with Penstock name the hub of a third one, and each other without an address. The pool that one exports serves in the other one; the
// hub's process is killed, and its pod replaced, without a lost request and with the same keys; then it relays that the pool is withdrawn.
func TestHub_RelaysBetweenClustersWithTheSameKeysAfterItsPodIsReplaced(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	l, dir := startLab(ctx, t, "relay", lab.Config{Clusters: 3})
	east, west, hub := newMember(t, l, 0, "east"), newMember(t, l, 1, "west"), newMember(t, l, 2, "hub")
	for _, m := range []*member{east, west, hub} {
		t.Cleanup(m.logProcesses)
	}
	of, err := installed.Members(ctx, l, east.name, west.name)
	if err != nil {
		t.Fatal(err)
	}
	is := hub.relays(ctx, l, filepath.Join(dir, "keys"))
	shown := is.show()
	is.set("hub", of[0].Peer(), of[1].Peer())
	joined := strings.Replace(shown, hubAddress, is.address(), 1)
	east.set("east", joined, "- {name: west}\n")
	west.set("west", joined, "- {name: east}\n")

	east.apply(pool)
	west.apply(routed)
	east.annotate(`"ClusterSet"`)
	address := west.address()
	chat := func(ctx context.Context) error { return ask(ctx, address) }
	west.Until("the pool of the other cluster serves", chat)
	east.Until("the pool is Exported", func(ctx context.Context) error { return east.exported(ctx, "True", "Exported") })
	load := labtest.NewLoad(t)
	load.Each("a request while the hub is killed and its pod replaced", 0, chat)
	if err := syscall.Kill(is.Process(is.pods(1)[0], "hub"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	east.moves(west, "after the hub was killed", "2")
	is.scale(0)
	is.scale(1)
	if again := is.show(); again != shown {
		t.Errorf("members join the hub with\n%s\nafter it was replaced, before with\n%s", again, shown)
	}
	east.moves(west, "after the hub's pod was replaced", "3")
	load.Goes(20)
	load.End()

	east.annotate("null")
	west.Until("the import is gone", func(ctx context.Context) error { return none(west.imports.Get(ctx, "chat", metav1.GetOptions{})) })
	if err := chat(t.Context()); err == nil {
		t.Error("a withdrawn pool serves")
	}
}

// set writes a cluster's ClusterSet, with entries of spec.members.
func (m *member) set(name string, members ...string) {
	m.Helper()
	text := "apiVersion: penstock.dev/v1alpha1\nkind: ClusterSet\nmetadata: {name: gpus}\nspec:\n  cluster: " + name + "\n"
	if len(members) > 0 {
		text += "  members:\n"
	}
	for _, one := range members {
		text += "  " + strings.ReplaceAll(strings.TrimSpace(one), "\n", "\n  ") + "\n"
	}
	if err := installed.Apply(m.Context(), m.REST, "", []byte(text)); err != nil {
		m.Fatal(err)
	}
}

// moves changes what the cluster exports, and waits until another one has it.
func (m *member) moves(to *member, when, weight string) {
	m.Helper()
	m.patch("penstock.dev/export-weight", fmt.Sprintf("%q", weight))
	to.Until("a change arrives "+when, func(ctx context.Context) error {
		u, err := to.imports.Get(ctx, "chat", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if text := fmt.Sprint(u.Object["status"]); !strings.Contains(text, "weight:"+weight) {
			return errors.New(text)
		}
		return nil
	})
}

// hubAddress is the address in the chart's values: that of its Service is not known before the installation.
const hubAddress = "hub.example.com:18443"

// relaying is the hub of a cluster.
type relaying struct {
	*member
	at *installed.Member
}

// relays installs a hub that relays, whose keys are in a folder.
func (m *member) relays(ctx context.Context, l *lab.Lab, folder string) *relaying {
	m.Helper()
	if err := os.Mkdir(folder, 0o755); err != nil {
		m.Fatal(err)
	}
	if _, err := m.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}}, metav1.CreateOptions{}); err != nil {
		m.Fatal(err)
	}
	if err := installed.Apply(ctx, m.REST, system, fmt.Appendf(nil, keys, folder)); err != nil {
		m.Fatal(err)
	}
	r := &relaying{m, &installed.Member{Name: m.name, Config: m.REST, Client: m.Clientset}}
	if err := installed.Chart(ctx, l, l.Contexts()[2], "hub.enabled=true,hub.members.address="+hubAddress+",hub.members.volume.persistentVolumeClaim.claimName=penstock-hub"); err != nil {
		m.Fatal(err)
	}
	m.set(m.name)
	return r
}

// scale has the hub run in no pod, or in one, and waits until it does. In between the volume is mounted by none.
func (r *relaying) scale(pods int) {
	r.Helper()
	if _, err := r.AppsV1().Deployments(system).Patch(r.Context(), "penstock-hub", types.MergePatchType, fmt.Appendf(nil, `{"spec": {"replicas": %d}}`, pods), metav1.PatchOptions{}); err != nil {
		r.Fatal(err)
	}
	r.pods(pods)
}

// pods waits until the hub runs in some pods.
func (r *relaying) pods(want int) (pods []corev1.Pod) {
	r.Helper()
	r.Until("the pods of the hub", func(ctx context.Context) error {
		list, err := r.CoreV1().Pods(system).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=penstock-hub"})
		if err != nil {
			return err
		}
		if pods = list.Items; len(pods) != want {
			return fmt.Errorf("%d pods", len(pods))
		}
		for _, p := range pods {
			if !labtest.Ready(p.Status) {
				return fmt.Errorf("%s is not ready: %+v", p.Name, p.Status.ContainerStatuses)
			}
		}
		return nil
	})
	return pods
}

// show is what `penstock clusters show` prints in the hub's pod.
func (r *relaying) show() (text string) {
	r.Helper()
	pod := r.pods(1)[0]
	r.Until("clusters show prints the hub", func(ctx context.Context) (err error) {
		text, err = r.at.Penstock(ctx, pod.Name, "", "clusters", "show", "--state", "/var/lib/penstock/hub/state")
		return err
	})
	return text
}

// address is that of the hub's Service.
func (r *relaying) address() (address string) {
	r.Helper()
	r.Until("the Service has an address", func(ctx context.Context) error {
		svc, err := r.CoreV1().Services(system).Get(ctx, "penstock-hub-members", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(svc.Status.LoadBalancer.Ingress) == 0 {
			return errors.New("none")
		}
		address = svc.Status.LoadBalancer.Ingress[0].IP + ":18443"
		return nil
	})
	return address
}
