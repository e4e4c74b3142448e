//go:build lab

package apiserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/penstock-project/penstock/conformance/lab/labtest"
)

var profileKind = schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1",
	Resource: "clusterprofiles"}

// profile creates a ClusterProfile for the cluster target; nil means no access provider.
func (s *server) profile(t *testing.T, namespace, name string, target *server) {
	t.Helper()
	s.create(t, "clusterprofiles",
		fmt.Sprintf(
			"{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ClusterProfile, metadata: {namespace: %s, name: %s}, "+
				"spec: {clusterManager: {name: tests}}}", namespace, name))
	if target == nil {
		return
	}
	status := fmt.Appendf(nil,
		`{"status": {"accessProviders": [{"name": "token", "cluster": {"server": %q, "certificate-authority-data": %q}}]}}`, target.rest.Host, base64.StdEncoding.EncodeToString(target.ca))
	if _, err := s.client.Resource(profileKind).Namespace(namespace).Patch(t.Context(), name, types.MergePatchType,
		status, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

func profileCRD(t *testing.T) string {
	t.Helper()
	module := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}",
		"sigs.k8s.io/cluster-inventory-api")
	module.Dir = "../../.."
	dir, err := module.Output()
	if err != nil {
		t.Fatal(err)
	}
	crd, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)),
		"config/crd/bases/multicluster.x-k8s.io_clusterprofiles.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(crd)
}

// A management cluster has the ClusterSet and a ClusterProfile of each member. Two hubs run there.
// After the leader is killed, the other hub continues in a later epoch. Problems name unusable
// profiles.
func TestHub_MembersByClusterProfileThroughTheLossOfTheLeader(t *testing.T) {
	servers := clusters(t, "east", "west")
	management := start(t)
	management.install(t, "clustersets")
	management.create(t, "customresourcedefinitions", profileCRD(t))
	management.create(t, "namespaces",
		"{apiVersion: v1, kind: Namespace, metadata: {name: fleet, labels: {multicluster.x-k8s.io/clusterset: gpus}}}")
	management.namespace(t, "elsewhere")
	management.namespace(t, "penstock-hub")
	management.permitHub(t)
	h := newHub(t, servers, "")
	text :=
		"{apiVersion: penstock.dev/v1alpha1, kind: ClusterSet, metadata: {name: gpus}, spec: {cluster: management, " +
			"members: ["
	for name, s := range servers {
		s.namespace(t, "team")
		management.profile(t, "fleet", name, s)
		text += "{name: " + name + ", clusterProfile: {namespace: fleet, name: " + name +
			"}, allow: {namespaces: [team]}}, "
	}
	management.profile(t, "fleet", "bare", nil)
	management.profile(t, "elsewhere", "other", servers["east"])
	management.create(t, "clustersets",
		text+
			"{name: bare, clusterProfile: {namespace: fleet, name: bare}}, {name: other, clusterProfile: {namespace: "+
			"elsewhere, name: other}}, {name: none, clusterProfile: {namespace: fleet, name: none}}]}}")
	providers := h.providers()
	h.kubeconfig("management", management, "hub")
	clusterSet := object{group: "penstock.dev", version: "v1alpha1", kind: "ClusterSet", resource: "clustersets",
		name: "gpus"}
	management.expectKstatus(t, "before a hub runs", clusterSet, kstatus.InProgressStatus)
	hubs := map[string]*hub{}
	for _, name := range []string{"a", "b"} {
		one := &hub{t: t, dir: h.dir, page: "http://" + port(t) + "/members"}
		one.kill = launch(t, h.dir, "hub-"+name, "../../../bin/penstock", "hub", "--kubeconfig",
			filepath.Join(h.dir, "members", "management.yaml"), "--namespace", "penstock-hub",
			"--clusterprofile-provider-file", providers,
			"--http", strings.TrimSuffix(strings.TrimPrefix(one.page, "http://"), "/members"), "--drain-time", "2s")
		hubs[name] = one
	}
	servers["east"].exported(t, "team", "chat", "192.0.2.1")
	servers["west"].hasImport(t, "team", "chat", "import: east[192.0.2.1] True/Ready")
	var leads *hub
	labtest.Until(t, "one hub leads and names what is wrong", func(ctx context.Context) error {
		for _, one := range hubs {
			members, err := one.members(ctx)
			if err != nil {
				return err
			}
			if !members.Leading {
				continue
			}
			leads = one
			for member, want := range map[string]string{
				"bare": "status.accessProviders is empty", "other": "label multicluster.x-k8s.io/clusterset",
				"none": "it does not exist",
			} {
				if got := fmt.Sprint(members.Problems[member]); !strings.Contains(got, want) ||
					!strings.Contains(got, "spec.members["+member+"].clusterProfile") {
					return fmt.Errorf("member %s: got %s, want %s in its clusterProfile", member, got, want)
				}
			}
			return nil
		}
		return errors.New("none leads")
	})
	labtest.Until(t, "the ClusterSet's status is current", func(context.Context) error {
		if got := management.kstatus(t, clusterSet); got.Status != kstatus.CurrentStatus {
			return fmt.Errorf("got %s: %s, want it current", got.Status, got.Message)
		}
		return nil
	})
	first := servers["west"].epoch(t, "team", "chat")
	leads.kill()
	servers["east"].balance(t, "team", "chat-epp", "192.0.2.2")
	servers["west"].hasImport(t, "team", "chat", "import: east[192.0.2.2] True/Ready")
	if second := servers["west"].epoch(t, "team", "chat"); second <= first {
		t.Errorf("the epoch of the first leader is %d, and of the next one %d, want it later", first, second)
	}
}

// providers writes a file with one credential provider, a script that prints a token.
func (h *hub) providers() string {
	h.t.Helper()
	plugin := filepath.Join(h.dir, "token.sh")
	if err := os.WriteFile(plugin, []byte(`#!/bin/sh
echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "hub"}}'
`), 0o700); err != nil {
		h.t.Fatal(err)
	}
	providers := filepath.Join(h.dir, "providers.json")
	write(h.t, providers,
		fmt.Appendf(nil,
			`{"providers": [{"name": "token", "execConfig": {"apiVersion": "client.authentication.k8s.io/v1", "command": %q}}]}`, plugin))
	return providers
}

func (s *server) permitHub(t *testing.T) {
	t.Helper()
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), filepath.Join(tools, "helm"), "template", "penstock",
		"../../../manifests/charts/penstock", "--namespace", "penstock-hub", "--show-only", "templates/hub.yaml",
		"--set", "hub.enabled=true,hub.profiles.configMap=providers")
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("helm: %v", err)
	}
	for _, text := range strings.Split(string(out), "\n---\n") {
		for _, kind := range []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"} {
			if strings.Contains(text, "\nkind: "+kind+"\n") {
				s.create(t, strings.ToLower(kind)+"s", text)
			}
		}
	}
}

func (s *server) epoch(t *testing.T, namespace, name string) (epoch int) {
	t.Helper()
	u, err := s.client.Resource(importKind).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(u.Object["status"])
	if err != nil {
		t.Fatal(err)
	}
	controllers, _, _ := unstructured.NestedSlice(u.Object, "status", "controllers")
	for _, c := range controllers {
		conditions, _, _ := unstructured.NestedSlice(c.(map[string]any), "conditions")
		for _, condition := range conditions {
			if condition := condition.(map[string]any); condition["type"] == "Hub" {
				if _, err := fmt.Sscanf(
					fmt.Sprint(condition["message"])[strings.Index(fmt.Sprint(condition["message"]), "epoch"):],
					"epoch %d", &epoch); err == nil {
					return epoch
				}
			}
		}
	}
	t.Fatalf("got %s, want the epoch of a hub", raw)
	return 0
}
