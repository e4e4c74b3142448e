//go:build lab

package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/conformance/lab/labtest"
	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests"
)

var (
	namespaceKind = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	crdKind       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
)

func (s *server) annotate(t *testing.T, name, annotations string) {
	t.Helper()
	if _, err := s.client.Resource(poolKind).Namespace("team").Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"metadata": {"annotations": `+annotations+`}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Every member imports from every exporter, including itself, into namespaces that the hub creates.
// One pool is exported through its cluster's gateways, and one member drains.
func TestHub_ImportsAllThroughParentsIntoNewNamespacesUntilAMemberDrains(t *testing.T) {
	servers := clusters(t, "east", "west")
	east, west := servers["east"], servers["west"]
	east.install(t, "gateways")
	east.namespace(t, "team")
	set := strings.Replace(setOf("east", "west"), "cluster: management,",
		"cluster: management, imports: All, createNamespaces: true,", 1)
	h := newHub(t, servers, set, "--create-namespaces")
	h.start()
	east.exported(t, "team", "chat", "192.0.2.1")
	west.entry(t, "team", "chat", "east", `"192.0.2.1"`, `"type":"EPPReady"`)
	east.entry(t, "team", "chat", "east", `"local":true`)
	if u, err := west.client.Resource(namespaceKind).Get(t.Context(), "team", metav1.GetOptions{}); err != nil ||
		u.GetLabels()["penstock.dev/imported-by"] == "" {
		t.Errorf("the namespace that the hub has made: got %v %v, want the label penstock.dev/imported-by", u, err)
	}
	east.hasExported(t, "team", "chat", "Exported=True/Exported: imported by 1 member")

	east.annotate(t, "chat", `{"inference.networking.x-k8s.io/export-mode": "ParentMode"}`)
	east.hasExported(t, "team", "chat", "Exported=False/NoAddress: no Gateway routes to it")
	west.hasImport(t, "team", "chat", "") // the import has drained
	east.create(t, "gateways",
		"{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {namespace: team, name: gw}, spec: "+
			"{gatewayClassName: any, listeners: [{name: tcp, port: 1, protocol: TCP}, {name: http, port: 8080, "+
			"protocol: HTTP}]}}")
	east.setStatus(t, poolKind, "team", "chat",
		`{"parents": [{"controllerName": "example.com/any", "parentRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "gw", "namespace": "team"},
  "conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}]}`)
	east.hasExported(t, "team", "chat", "Exported=False/NoAddress: Gateway team/gw, which routes to it, has no address")
	east.setStatus(t, gatewayKind("gateways"), "team", "gw",
		`{"addresses": [{"type": "IPAddress", "value": "192.0.2.80"}]}`)
	west.entry(t, "team", "chat", "east", `"routingMode":"ParentMode"`, `"192.0.2.80"`, `"number":8080`,
		`"type":"ParentsReady"`)
	east.entry(t, "team", "chat", "east", `"local":true`, `"routingMode":"ParentMode"`)
	east.hasExported(t, "team", "chat", "Exported=True")

	west.exported(t, "team", "chat", "192.0.2.2")
	east.hasImport(t, "team", "chat", "import: east True/Ready, west[192.0.2.2] True/Ready")
	drained := strings.Replace(set, "{name: west,", "{name: west, draining: true,", 1)
	write(t, filepath.Join(h.dir, "set", "set.yaml"), []byte(drained))
	east.hasImport(t, "team", "chat", "import: east True/Ready, west[192.0.2.2] False/Draining")
	h.kill()
	h.start()
	west.annotate(t, "chat", `{"penstock.dev/export-weight": "7"}`)
	east.entry(t, "team", "chat", "west", `"weight":7`, `"reason":"Draining"`)
	write(t, filepath.Join(h.dir, "set", "set.yaml"), []byte(set))
	east.hasImport(t, "team", "chat", "import: east True/Ready, west[192.0.2.2] True/Ready")
}

func theirs(t *testing.T) string {
	t.Helper()
	module := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}",
		"sigs.k8s.io/gateway-api-inference-extension")
	module.Dir = "../../.."
	dir, err := module.Output()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)),
		"config/crd/bases/inference.networking.x-k8s.io_inferencepoolimports.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// carries waits until Penstock reads the wanted clusters from the import of a pool, even if the CRD
// lacks status.clusters.
func (s *server) carries(t *testing.T, objects *store.Store, name, want string) {
	t.Helper()
	labtest.Until(t, "a Penstock reads the clusters of "+name, func(context.Context) error {
		imp, ok := store.InferencePoolImports.Get(objects.View(), "team/"+name)
		if !ok {
			return fmt.Errorf("no import of %s, want one", name)
		}
		got := ""
		for _, c := range imp.Status.Clusters {
			got += fmt.Sprint(c.Name, c.EndpointPicker.Service[0].Addresses, c.Conditions[1].Status)
		}
		if got != want {
			return fmt.Errorf("it reads %q, want %q", got, want)
		}
		return nil
	})
}

func (s *server) takesOurCRD(t *testing.T) {
	t.Helper()
	files, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Plural != importKind.Resource {
			continue
		}
		ours := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(f.YAML, &ours.Object); err != nil {
			t.Fatal(err)
		}
		live, err := s.client.Resource(crdKind).Get(t.Context(), ours.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		live.Object["spec"] = ours.Object["spec"]
		if _, err := s.client.Resource(crdKind).Update(t.Context(), live, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// One member has another project's CRD of InferencePoolImport, without status.clusters. Later an
// operator installs Penstock's CRD.
func TestHub_CRDOfAnotherProjectHasTheClustersInConditions(t *testing.T) {
	servers := clusters(t, "east")
	east, west := servers["east"], start(t)
	servers["west"] = west
	west.create(t, "customresourcedefinitions", theirs(t))
	west.install(t, "inferencepools")
	for _, s := range servers {
		s.namespace(t, "team")
	}
	objects := store.New()
	source, err := kube.New(kube.Config{REST: west.rest, Store: objects,
		Only: []kube.Kind{{Group: importKind.Group, Kind: "InferencePoolImport", Required: true}},
		Log:  slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = source.Run(t.Context()) }()
	h := newHub(t, servers, setOf("east", "west"))
	h.start()
	east.exported(t, "team", "chat", "192.0.2.1")
	west.carries(t, objects, "chat", "east[192.0.2.1]True")
	east.hasExported(t, "team", "chat",
		"Exported=True/Exported: imported by 1 member; by Penstock alone in west, where the CRD")
	u, err := west.client.Resource(importKind).Namespace("team").Get(t.Context(), "chat", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(u.Object["status"]); !strings.Contains(got, "ClustersPruned") ||
		strings.Contains(got, "status.clusters:") {
		t.Errorf("status: got %s, want ClustersPruned and no status.clusters", got)
	}

	// This member gets no more writes than other members.
	n := len(west.writes(t))
	east.balance(t, "team", "chat-epp", "192.0.2.9")
	west.carries(t, objects, "chat", "east[192.0.2.9]True")
	if got := about(west.writes(t), n, "chat"); len(got) != 1 {
		t.Errorf("a changed export: %v, want 1 of them", got)
	}
	h.kill()
	n = len(west.writes(t))
	h.start()
	east.exported(t, "team", "marker", "192.0.2.4")
	west.carries(t, objects, "marker", "east[192.0.2.4]True")
	if got := about(west.writes(t), n, "chat"); len(got) != 0 {
		t.Errorf("writes after a restart without a change: got %v, want none", got)
	}

	west.takesOurCRD(t)
	west.hasImport(t, "team", "chat", "import: east[192.0.2.9] True/Ready")
	west.carries(t, objects, "chat", "east[192.0.2.9]True")
	east.hasExported(t, "team", "chat", "Exported=True/Exported: imported by 1 member")
	u, err = west.client.Resource(importKind).Namespace("team").Get(t.Context(), "chat", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(u.Object["status"]); strings.Contains(got, "ClustersPruned") ||
		strings.Contains(got, "penstock.dev/Clusters") {
		t.Errorf("status with our CRD: got %s, want neither ClustersPruned nor penstock.dev/Clusters", got)
	}
	east.annotate(t, "chat", `{"inference.networking.x-k8s.io/export": null}`)
	west.hasImport(t, "team", "chat", "")
}

func TestHub_TakesThePlaceOfAnotherOnlyIfAsked(t *testing.T) {
	servers := clusters(t, "east", "west")
	east, west := servers["east"], servers["west"]
	for _, s := range servers {
		s.namespace(t, "team")
	}
	first := newHub(t, servers, setOf("east", "west"))
	first.start()
	east.exported(t, "team", "chat", "192.0.2.1")
	east.exported(t, "team", "gone", "192.0.2.3")
	west.hasImport(t, "team", "chat", "import: east[192.0.2.1] True/Ready")
	west.hasImport(t, "team", "gone", "import: east[192.0.2.3] True/Ready")
	first.kill()
	east.balance(t, "team", "chat-epp", "192.0.2.2")
	east.annotate(t, "gone", `{"inference.networking.x-k8s.io/export": null}`)

	second := &hub{t: t, dir: t.TempDir()}
	if err := os.Remove(filepath.Join(first.dir, "state", "api.sock")); err != nil { // CopyFS cannot copy a socket
		t.Fatal(err)
	}
	if err := os.CopyFS(second.dir, os.DirFS(first.dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(second.dir, "state")); err != nil {
		t.Fatal(err)
	}
	second.start()
	east.hasExported(t, "team", "chat",
		"Exported=False/NotAllowed: imported by 0 members, and not by others: NotAllowed: west")
	west.hasImport(t, "team", "chat", "import: east[192.0.2.1] True/Ready")
	second.kill()
	second.start("--take-over")
	west.hasImport(t, "team", "chat", "import: east[192.0.2.2] True/Ready")
	west.hasImport(t, "team", "gone", "")
	east.hasExported(t, "team", "chat", "Exported=True")
	second.kill()
	second.start() // the flag is needed only once
	east.balance(t, "team", "chat-epp", "192.0.2.4")
	west.hasImport(t, "team", "chat", "import: east[192.0.2.4] True/Ready")
	second.kill()

	first.start()
	east.hasExported(t, "team", "chat", "Exported=False/NotAllowed")
	east.balance(t, "team", "chat-epp", "192.0.2.5")
	east.exported(t, "team", "marker", "192.0.2.6")
	west.hasImport(t, "team", "marker", "import: east[192.0.2.6] True/Ready")
	west.hasImport(t, "team", "chat", "import: east[192.0.2.4] True/Ready")
}
