//go:build lab && linux

package chart

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/installed"
	"github.com/penstock-project/penstock/conformance/lab/labtest"
)

// The first of three clusters has a pool with its own picker but no control plane. The second has a
// Gateway of Penstock without a ClusterSet, and the third nothing. The annotated pool serves the
// Gateway's requests while the hub restarts. Without the annotation, the imports disappear.
func TestHub_PoolServesTheGatewayOfAClusterThatKnowsNoOther(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	l, _ := startLab(ctx, t, "hub", lab.Config{Clusters: 3})
	var members []*member
	for i, name := range []string{"east", "west", "north"} {
		members = append(members, newMember(t, l, i, name))
	}
	east, west, north := members[0], members[1], members[2]
	h := newHub(t, members...)
	at := []string{"--kubeconfig", l.Kubeconfig(), "--wait", "--timeout", labtest.Timeout.String()}
	east.apply(strings.Split(pool, "---")[0])
	helm(t,
		append([]string{"install", "chat", pickerDir, "--namespace", team, "--kube-context", l.Contexts()[0], "--set",
			"pool.selector.app=chat,replicas=1,networkPolicy.enabled=false,allowedCIDRs={10.128.0.0/9}"}, at...)...)
	if err := installed.Chart(ctx, l, l.Contexts()[1], "allowedCIDRs={10.128.0.0/9},replicas=1"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(west.logProcesses)
	west.apply(routed)
	east.annotate(`"ClusterSet"`)
	address := west.address()
	chat := func(ctx context.Context) error { return ask(ctx, address) }
	west.Until("the pool of the other cluster serves", chat)
	for _, m := range []*member{west, north} {
		m.Until("the import names east", func(ctx context.Context) error { return m.importOf(ctx, "east") })
	}
	east.Until("the pool is Exported", func(ctx context.Context) error {
		return east.exportedByHub(ctx, "True", "Exported")
	})

	load := labtest.NewLoad(t)
	load.Each("a request while the hub is killed and started again", 0, chat)
	h.Kill()
	if err := north.imports.Delete(t.Context(), "chat", metav1.DeleteOptions{}); err != nil { // while no hub runs
		t.Fatal(err)
	}
	h.start()
	north.Until("the import is made again", func(ctx context.Context) error { return north.importOf(ctx, "east") })
	east.Until("the pool is Exported", func(ctx context.Context) error {
		return east.exportedByHub(ctx, "True", "Exported")
	})
	load.Goes(20)
	load.End()

	east.annotate("null")
	for _, m := range []*member{west, north} {
		m.Until("the import is gone", func(ctx context.Context) error {
			return none(m.imports.Get(ctx, "chat", metav1.GetOptions{}))
		})
	}
	if err := chat(t.Context()); err == nil {
		t.Error("a withdrawn pool serves")
	}
}

func (m *member) importOf(ctx context.Context, cluster string) error {
	u, err := m.imports.Get(ctx, "chat", metav1.GetOptions{})
	if err != nil {
		return err
	}
	clusters, _, _ := unstructured.NestedSlice(u.Object, "status", "clusters")
	if len(clusters) != 1 || clusters[0].(map[string]any)["name"] != cluster ||
		clusters[0].(map[string]any)["endpoints"] != nil {
		return fmt.Errorf("got status %v, want the cluster %s alone, without endpoints", u.Object["status"], cluster)
	}
	return condition(clusters[0].(map[string]any), "Ready", "True", "")
}

func (m *member) exportedByHub(ctx context.Context, status, reason string) error {
	u, err := m.pools.Get(ctx, "chat", metav1.GetOptions{})
	if err != nil {
		return err
	}
	parents, _, _ := unstructured.NestedSlice(u.Object, "status", "parents")
	for _, p := range parents {
		if parent := p.(map[string]any); parent["controllerName"] == "penstock.dev/multicluster-hub" {
			return condition(parent, "Exported", status, reason)
		}
	}
	return fmt.Errorf("parents: got %v, want one of the hub", parents)
}

type hub struct {
	*testing.T
	*installed.Hub
}

func newHub(t *testing.T, members ...*member) *hub {
	t.Helper()
	process, err := installed.NewHub(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &hub{t, process}
	t.Cleanup(func() {
		h.Kill()
		if t.Failed() {
			t.Logf("the hub logged: %s", h.Hub.Log())
		}
	})
	var names []string
	for _, m := range members {
		if err := h.Admit(t.Context(), m.name, m.REST); err != nil {
			t.Fatal(err)
		}
		names = append(names, m.name)
	}
	if err := h.Lead("10.128.0.0/9", names...); err != nil {
		t.Fatal(err)
	}
	h.start()
	return h
}

func (h *hub) start() {
	h.Helper()
	if err := h.Start("2s"); err != nil {
		h.Fatal(err)
	}
}
