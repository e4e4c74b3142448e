//go:build lab

package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/conformance/lab/labtest"
	"github.com/penstock-project/penstock/discovery/file"
	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/kubestatus"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests"
	"github.com/penstock-project/penstock/manifests/features"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

const controller = "penstock.dev/gateway-controller"

type object struct{ group, version, kind, resource, name, yaml string }

var objects = []object{
	{"gateway.networking.k8s.io", "v1", "GatewayClass", "gatewayclasses", "penstock",
		"spec: {controllerName: penstock.dev/gateway-controller}"},
	{"gateway.networking.k8s.io", "v1", "Gateway", "gateways", "gw",
		"spec: {gatewayClassName: penstock, listeners: [{name: http, port: 80, protocol: HTTP}]}"},
	{"gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes", "h",
		"spec: {parentRefs: [{name: gw}], rules: [{backendRefs: [{name: web, port: 80}]}]}"},
	{"gateway.networking.k8s.io", "v1", "GRPCRoute", "grpcroutes", "g",
		"spec: {parentRefs: [{name: gw}], rules: [{backendRefs: [{name: web, port: 80}]}]}"},
	{"gateway.networking.k8s.io", "v1", "TLSRoute", "tlsroutes", "t",
		"spec: {parentRefs: [{name: gw}], hostnames: [a.example.com], rules: [{backendRefs: [{name: web, " +
			"port: 80}]}]}"},
	{"gateway.networking.k8s.io", "v1", "TCPRoute", "tcproutes", "c",
		"spec: {parentRefs: [{name: gw}], rules: [{backendRefs: [{name: web, port: 80}]}]}"},
	{"gateway.networking.k8s.io", "v1", "UDPRoute", "udproutes", "u",
		"spec: {parentRefs: [{name: gw}], rules: [{backendRefs: [{name: web, port: 53}]}]}"},
	{"gateway.networking.k8s.io", "v1", "ListenerSet", "listenersets", "ls",
		"spec: {parentRef: {name: gw}, listeners: [{name: more, port: 8080, protocol: HTTP}]}"},
	{"gateway.networking.k8s.io", "v1", "BackendTLSPolicy", "backendtlspolicies", "b",
		"spec: {targetRefs: [{group: '', kind: Service, name: web}], validation: {hostname: a.example.com, " +
			"wellKnownCACertificates: System}}"},
	{"inference.networking.k8s.io", "v1", "InferencePool", "inferencepools", "p",
		"spec: {selector: {matchLabels: {app: chat}}, targetPorts: [{number: 8000}]}"},
	{"inference.networking.x-k8s.io", "v1alpha2", "InferenceModel", "inferencemodels", "m",
		"spec: {modelName: chat, poolRef: {name: p}}"},
	{"llm-d.ai", "v1alpha2", "InferenceModelRewrite", "inferencemodelrewrites", "mr",
		"spec: {poolRef: {name: p}, rules: [{targets: [{modelRewrite: chat}]}]}"},
	{"llm-d.ai", "v1alpha2", "InferenceObjective", "inferenceobjectives", "o", "spec: {poolRef: {name: p}}"},
	{"inference.networking.x-k8s.io", "v1alpha1", "InferencePoolImport", "inferencepoolimports", "i", ""},
	{"penstock.dev", "v1alpha1", "ModelDeployment", "modeldeployments", "md",
		"spec: {engine: {name: sim}, model: {name: qwen}}"},
	{"penstock.dev", "v1alpha1", "ModelRegistry", "modelregistries", "mreg", "spec: {type: hugging-face}"},
	{"penstock.dev", "v1alpha1", "ModelServers", "modelservers", "ms", "spec: {servers: [{address: 10.0.0.1}]}"},
	{"penstock.dev", "v1alpha1", "ClusterSet", "clustersets", "set", "spec: {cluster: here}"},
	{"penstock.dev", "v1alpha1", "PoolPolicy", "poolpolicies", "pp",
		"spec: {targetRef: {name: p}, picker: {strategy: load}}"},
	{"penstock.dev", "v1alpha1", "AccessPolicy", "accesspolicies", "ap",
		"spec: {targetRefs: [{kind: Gateway, name: gw}], apiKeys: {}}"},
	{"penstock.dev", "v1alpha1", "EnvoyFleet", "envoyfleets", "ef", "spec: {replicas: 2}"},
}

func (o object) text() string {
	namespace := "namespace: default, "
	if o.ofCluster() {
		namespace = ""
	}
	return fmt.Sprintf("apiVersion: %s/%s\nkind: %s\nmetadata: {%sname: %s}\n%s\n", o.group, o.version, o.kind,
		namespace, o.name, o.yaml)
}

func (o object) ofCluster() bool { return o.kind == "GatewayClass" || o.kind == "ClusterSet" }

func (o object) ref() report.Ref {
	ref := report.Ref{Group: o.group, Kind: o.kind, Namespace: "default", Name: o.name}
	if o.ofCluster() {
		ref.Namespace = ""
	}
	return ref
}

func follow(t *testing.T, s *server) (*store.Store, *kube.Source) {
	t.Helper()
	world := store.New()
	source, err := kube.New(kube.Config{REST: s.rest, Store: world, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	kubetest.Run(t, source.Run)
	if err := source.Synced(t.Context()); err != nil {
		t.Fatal(err)
	}
	return world, source
}

func tableOf(t *testing.T, kind string) store.Kind {
	t.Helper()
	for _, k := range store.Tables() {
		if k.Kind() == kind {
			return k
		}
	}
	t.Fatalf("no table for %s", kind)
	return nil
}

func TestFile_ObjectTranslatesAsOnKubernetes(t *testing.T) {
	s := start(t)
	world, _ := follow(t, s) // kinds are installed only later
	s.install(t, "*")
	dir := t.TempDir()
	for _, o := range objects {
		s.create(t, o.resource, o.text())
		write(t, filepath.Join(dir, o.name+".yaml"), []byte(o.text()))
	}
	files := store.New()
	reader, err := file.New(file.Config{Paths: []string{dir}, Store: files, StateDir: t.TempDir(),
		Log: slog.New(slog.DiscardHandler), Report: func(reports []report.Report) {
			for _, r := range reports {
				for _, f := range r.Findings {
					t.Log(f)
				}
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		k := tableOf(t, o.kind)
		want, ok := k.Object(files.View(), o.ref().Key())
		if !ok {
			t.Fatalf("%s: not read from its file", o.ref())
		}
		labtest.Until(t, "the cluster's objects", func(context.Context) error {
			if _, ok := k.Object(world.View(), o.ref().Key()); !ok {
				return fmt.Errorf("%s: not read from the cluster, want it there", o.ref())
			}
			return nil
		})
		got, _ := k.Object(world.View(), o.ref().Key())
		got = got.DeepCopyObject().(store.Object)
		want = withoutStatus(want.DeepCopyObject().(store.Object))
		// Only objects of a cluster have these fields.
		got.SetUID("")
		got.SetGeneration(0)
		got.SetCreationTimestamp(metav1.Time{})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: file (-), cluster (+):\n%s", o.ref(), diff)
		}
	}
}

func withoutStatus(obj store.Object) store.Object {
	switch o := obj.(type) {
	case *gatewayv1.GatewayClass:
		o.Status = gatewayv1.GatewayClassStatus{}
	case *gatewayv1.Gateway:
		o.Status = gatewayv1.GatewayStatus{}
	case *gatewayv1.ListenerSet:
		o.Status = gatewayv1.ListenerSetStatus{}
	case *v1alpha1.ModelServers:
		o.Status = v1alpha1.ModelServersStatus{}
	case *v1alpha1.PoolPolicy:
		o.Status = v1alpha1.PoolPolicyStatus{}
	case *v1alpha1.AccessPolicy:
		o.Status = v1alpha1.AccessPolicyStatus{}
	case *v1alpha1.EnvoyFleet:
		o.Status = v1alpha1.EnvoyFleetStatus{}
	case *v1alpha1.ClusterSet:
		o.Status = v1alpha1.ClusterSetStatus{}
	}
	return obj
}

// statuses runs a status writer for the reports on a board. The store follows the server.
func (s *server) statuses(t *testing.T) (*store.Store, *status.Board, *kubestatus.Writer) {
	t.Helper()
	world, source := follow(t, s)
	board := status.NewBoard(nil)
	writer, err := kubestatus.New(kubestatus.Config{
		Source: source, Store: world, Board: board, Delivery: delivered{}, Controller: controller,
		Features: features.Names(), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	kubetest.Run(t, writer.Lead)
	return world, board, writer
}

type delivered struct{}

func (delivered) Delivered(string, int64) (int, bool) { return 1, true }

func TestStatus_APIServerAcceptsEveryStatus(t *testing.T) {
	haveStatus(t)
	s := start(t)
	s.install(t, "*")
	for _, o := range objects {
		s.create(t, o.resource, o.text())
	}
	world, board, writer := s.statuses(t)
	parent := report.ParentRef{Group: gatewayv1.GroupName, Kind: "Gateway", Namespace: "default", Name: "gw"}
	accepted := []report.Condition{{Type: "Accepted", Status: report.True, Reason: "Accepted", Message: "accepted"}}
	for _, o := range objects {
		rep := report.Report{Owner: o.ref(), Conditions: accepted}
		switch o.kind {
		case "GatewayClass", "PoolPolicy", "InferenceModel", "InferenceModelRewrite", "InferenceObjective",
			"ModelServers", "ClusterSet", "EnvoyFleet":
		case "Gateway", "ListenerSet":
			rep.Listeners = []report.Listener{
				{Name: "http", AttachedRoutes: 2, Conditions: accepted,
					SupportedKinds: []report.Ref{{Group: gatewayv1.GroupName, Kind: "HTTPRoute"}}},
			}
		default:
			rep.Conditions, rep.Parents = nil, []report.Parent{{Ref: parent, Conditions: accepted}}
		}
		board.Set("translation", rep)
	}
	labtest.Until(t, "conditions of the first generation", func(context.Context) error {
		view := world.View()
		writer.Observe(view, store.Everything(view))
		for _, o := range objects {
			got, err := s.conditions(t.Context(), schema.GroupVersionResource{
				Group: o.group, Version: o.version, Resource: o.resource,
			}, o.name)
			if err != nil || !got["Accepted=True/Accepted@1"] {
				return fmt.Errorf("%s has conditions %v: %w, want Accepted of generation 1", o.ref(), got, err)
			}
		}
		return nil
	})
	// A change makes a new generation, which the conditions must observe.
	gateways := schema.GroupVersionResource{Group: gatewayv1.GroupName, Version: "v1", Resource: "gateways"}
	if _, err := s.client.Resource(gateways).Namespace("default").Patch(t.Context(), "gw", types.MergePatchType,
		[]byte(`{"spec":{"listeners":[{"name":"http","port":81,"protocol":"HTTP"}]}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	labtest.Until(t, "conditions of the second generation", func(context.Context) error {
		view := world.View()
		writer.Observe(view, store.Everything(view))
		got, err := s.conditions(t.Context(), gateways, "gw")
		if err != nil || !got["Accepted=True/Accepted@2"] || got["Accepted=True/Accepted@1"] {
			return fmt.Errorf("Gateway gw has conditions %v: %w, want Accepted of generation 2 alone", got, err)
		}
		return nil
	})
}

// haveStatus checks that the objects contain every kind with a status. ServiceImports are exempt,
// because another controller writes theirs.
func haveStatus(t *testing.T) {
	t.Helper()
	files, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		crd, err := manifests.CRD(f.Group, f.Plural)
		if err != nil {
			t.Fatal(err)
		}
		if sub := crd.Spec.Versions[0].Subresources; sub != nil && sub.Status != nil && f.Plural != "serviceimports" &&
			!slices.ContainsFunc(objects, func(o object) bool { return o.group == f.Group && o.resource == f.Plural }) {
			t.Errorf("%s.%s has a status and no object in this test", f.Plural, f.Group)
		}
	}
}
