//go:build lab && linux

package chart

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/installed"
	"github.com/penstock-project/penstock/conformance/lab/labtest"
)

// A hub and three clusters: the first one has a pool with a picker of its own and no control plane, the second one Penstock's gateway without a
// ClusterSet, the third one nothing at all. The pool is annotated, and serves the gateway's requests; the hub is killed, and started again, and a change reaches
// the importers; the annotation goes, and so do the imports.
func TestHub_PoolServesTheGatewayOfAClusterThatKnowsNoOther(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "hub")
	if err != nil {
		t.Fatal(err)
	}
	l, err := installed.Prepare(ctx, lab.Config{Dir: dir, Clusters: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Down(); err != nil {
			t.Error(err)
		}
	})
	h := &hubProcess{t: t, dir: t.TempDir()}
	var of []*member
	set := "apiVersion: penstock.dev/v1alpha1\nkind: ClusterSet\nmetadata: {name: gpus}\nspec:\n  cluster: management\n  members:\n"
	for i, name := range []string{"east", "west", "north"} {
		m := newMember(t, l, i, name)
		h.admit(m)
		set += fmt.Sprintf("  - {name: %s, kubeconfig: {file: %s.yaml}, allow: {podCIDRs: [10.128.0.0/9]}}\n", name, name)
		of = append(of, m)
	}
	east, west, north := of[0], of[1], of[2]
	if err := os.WriteFile(filepath.Join(h.dir, "set.yaml"), []byte(set), 0o600); err != nil {
		t.Fatal(err)
	}
	h.start()
	at := []string{"--kubeconfig", l.Kubeconfig(), "--wait", "--timeout", labtest.Timeout.String()}
	east.apply(strings.Split(pool, "---")[0])
	helm(t, append([]string{"install", "chat", pickerDir, "--namespace", team, "--kube-context", l.Contexts()[0], "--set", "pool.selector.app=chat,replicas=1,networkPolicy.enabled=false,allowedCIDRs={10.128.0.0/9}"}, at...)...)
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
	east.Until("the pool is Exported", func(ctx context.Context) error { return east.exportedByHub(ctx, "True", "Exported") })

	load := labtest.NewLoad(t)
	load.Each("a request while the hub is killed and started again", 0, chat)
	h.kill()
	if err := north.imports.Delete(t.Context(), "chat", metav1.DeleteOptions{}); err != nil { // while no hub runs
		t.Fatal(err)
	}
	h.start()
	north.Until("the import is made again", func(ctx context.Context) error { return north.importOf(ctx, "east") })
	east.Until("the pool is Exported", func(ctx context.Context) error { return east.exportedByHub(ctx, "True", "Exported") })
	load.Goes(20)
	load.End()

	east.annotate("null")
	for _, m := range []*member{west, north} {
		m.Until("the import is gone", func(ctx context.Context) error { return none(m.imports.Get(ctx, "chat", metav1.GetOptions{})) })
	}
	if err := chat(t.Context()); err == nil {
		t.Error("a withdrawn pool serves")
	}
}

// importOf returns nil if the import has one cluster, from the hub.
func (m *member) importOf(ctx context.Context, cluster string) error {
	u, err := m.imports.Get(ctx, "chat", metav1.GetOptions{})
	if err != nil {
		return err
	}
	clusters, _, _ := unstructured.NestedSlice(u.Object, "status", "clusters")
	if len(clusters) != 1 || clusters[0].(map[string]any)["name"] != cluster || clusters[0].(map[string]any)["endpoints"] != nil {
		return fmt.Errorf("status %v", u.Object["status"])
	}
	return condition(clusters[0].(map[string]any), "Ready", "True", "")
}

// exportedByHub returns nil if the pool has the condition Exported of a hub.
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
	return fmt.Errorf("parents %v", parents)
}

// hubProcess is penstock hub, outside of the clusters.
type hubProcess struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
}

// admit gives the hub its permissions in a cluster, and writes its kubeconfig: the token of the service account that `penstock hub rules` has.
func (h *hubProcess) admit(m *member) {
	h.t.Helper()
	rules, err := exec.CommandContext(h.t.Context(), "../../../bin/penstock", "hub", "rules").Output()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := installed.Apply(h.t.Context(), m.REST, "penstock-hub", rules); err != nil {
		h.t.Fatal(err)
	}
	token, err := m.CoreV1().ServiceAccounts("penstock-hub").CreateToken(h.t.Context(), "penstock-hub", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	config := api.NewConfig()
	config.Clusters["it"] = &api.Cluster{Server: m.REST.Host, CertificateAuthorityData: m.REST.CAData, CertificateAuthority: m.REST.CAFile, InsecureSkipTLSVerify: m.REST.Insecure}
	config.AuthInfos["it"] = &api.AuthInfo{Token: token.Status.Token}
	config.Contexts["it"] = &api.Context{Cluster: "it", AuthInfo: "it"}
	config.CurrentContext = "it"
	if err := clientcmd.WriteToFile(*config, filepath.Join(h.dir, "members", m.name+".yaml")); err != nil {
		h.t.Fatal(err)
	}
}

// start starts the hub, again after a kill.
func (h *hubProcess) start() {
	h.t.Helper()
	logs, err := os.OpenFile(filepath.Join(h.dir, "hub.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		h.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	h.cmd = exec.Command("../../../bin/penstock", "hub", "-f", filepath.Join(h.dir, "set.yaml"), "--kubeconfigs", filepath.Join(h.dir, "members"),
		"--state", filepath.Join(h.dir, "state"), "--http", address, "--drain-time", "2s")
	h.cmd.Stdout, h.cmd.Stderr = logs, logs
	if err := h.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	cmd := h.cmd
	h.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // an error, because it was killed
		}
		_ = logs.Close()
		if raw, err := os.ReadFile(logs.Name()); err == nil && h.t.Failed() {
			h.t.Logf("the hub logged: %s", raw[max(0, len(raw)-4000):])
		}
	})
}

// kill kills the hub.
func (h *hubProcess) kill() {
	h.t.Helper()
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait() // an error, because it was killed
}
