//go:build lab

package apiserver

import (
	"context"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/penstock-project/penstock/conformance/lab/labtest"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/registry"
	"github.com/penstock-project/penstock/multicluster/set"
)

// Flux and other tools decide by kstatus whether an object is ready. kstatus has no rules for
// Penstock's kinds, so their status must suffice.
func TestKstatus_OwnKindsAreInProgressFailedAndCurrent(t *testing.T) {
	s := start(t)
	s.install(t, "modelservers", "modeldeployments", "modelregistries", "poolpolicies",
		"clustersets", "accesspolicies", "envoyfleets")
	changed := map[string]string{
		"ModelServers":    `{"spec": {"servers": [{"address": "10.0.0.2"}]}}`,
		"PoolPolicy":      `{"spec": {"picker": {"strategy": "round-robin"}}}`,
		"ClusterSet":      `{"spec": {"region": "eu-west-1"}}`,
		"EnvoyFleet":      `{"spec": {"replicas": 3}}`,
		"ModelDeployment": `{"spec": {"replicas": 2}}`,
		"ModelRegistry":   `{"spec": {"url": "https://mirror.example"}}`,
		"AccessPolicy":    `{"spec": {"targetRefs": [{"kind": "Gateway", "name": "other"}]}}`,
	}
	var own []object
	for _, o := range objects {
		if changed[o.kind] != "" {
			own = append(own, o)
			s.create(t, o.resource, o.text())
		}
	}
	if len(own) != len(changed) {
		t.Fatalf("objects: %v, want %d of them", own, len(changed))
	}
	for _, o := range own {
		s.expectKstatus(t, "before it is observed", o, kstatus.InProgressStatus)
	}
	world, board, writer := s.statuses(t)
	reports := func(what string, c report.Condition, want kstatus.Status) {
		t.Helper()
		for _, o := range own {
			board.Set("translation", report.Report{Owner: o.ref(), Conditions: []report.Condition{c}})
		}
		for _, o := range own {
			labtest.Until(t, what, func(ctx context.Context) error {
				view := world.View()
				writer.Observe(view, store.Everything(view))
				if got := s.kstatus(t, o); got.Status != want {
					return fmt.Errorf("%s is %s (%s), want %s", o.ref(), got.Status, got.Message, want)
				}
				return nil
			})
		}
	}
	broken := report.Condition{Type: "Accepted", Status: report.False, Reason: "TargetNotFound",
		Message: "there is no pool"}
	good := report.Condition{Type: "Accepted", Status: report.True, Reason: "Accepted"}
	reports("the first report, of a mistake", broken, kstatus.FailedStatus)
	for _, o := range own {
		if got := s.kstatus(t, o); got.Message != broken.Message {
			t.Errorf("%s: the message is %q, want %q", o.ref(), got.Message, broken.Message)
		}
	}
	reports("the mistake is resolved", good, kstatus.CurrentStatus)
	for _, o := range own { // no controller observes the object until the next report
		if _, err := s.resource(o).Patch(t.Context(), o.name, types.MergePatchType, []byte(changed[o.kind]),
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		s.expectKstatus(t, "after a change", o, kstatus.InProgressStatus)
	}
	reports("the change is observed", good, kstatus.CurrentStatus)
}

// An AccessPolicy has conditions in entries of status.ancestors, which kstatus does not read. So
// the policy also needs conditions at the top of its status.
func TestKstatus_AncestorsConditionsAreThePolicysToo(t *testing.T) {
	s := start(t)
	s.install(t, "accesspolicies")
	i := slices.IndexFunc(objects, func(o object) bool { return o.kind == "AccessPolicy" })
	o := objects[i]
	s.create(t, o.resource, o.text())
	world, board, writer := s.statuses(t)
	for _, c := range []struct {
		status string
		want   kstatus.Status
	}{{report.False, kstatus.FailedStatus}, {report.True, kstatus.CurrentStatus}} {
		parent := func(name string, status string) report.Parent {
			return report.Parent{Ref: report.ParentRef{Group: "gateway.networking.k8s.io", Kind: "Gateway",
				Namespace: "default", Name: name}, Conditions: []report.Condition{{Type: "Accepted", Status: status,
				Reason: "TargetNotFound", Message: "there is no Gateway"}}}
		}
		board.Set("translation", report.Report{Owner: o.ref(),
			Parents: []report.Parent{parent("good", report.True), parent("other", c.status)}})
		labtest.Until(t, "the status is written", func(context.Context) error {
			view := world.View()
			writer.Observe(view, store.Everything(view))
			if got := s.kstatus(t, o); got.Status != c.want {
				return fmt.Errorf("%s is %s (%s), want %s", o.ref(), got.Status, got.Message, c.want)
			}
			return nil
		})
		u, err := s.resource(o).Get(t.Context(), o.name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if list, _, _ := unstructured.NestedSlice(u.Object, "status", "ancestors"); len(list) != 2 {
			t.Errorf("ancestors: got %v, want 2", list)
		}
	}
}

// Penstock creates PoolExports itself, and writes their conditions together with the export.
func TestKstatus_PoolExportIsInProgressFailedAndCurrent(t *testing.T) {
	s := start(t)
	s.install(t, "poolexports")
	o := object{group: "penstock.dev", version: "v1alpha1", kind: "PoolExport", resource: "poolexports",
		name: "chat.west", yaml: "spec: {cluster: west, pool: chat}"}
	s.create(t, o.resource, o.text())
	s.expectKstatus(t, "before Penstock has written it", o, kstatus.InProgressStatus)
	writer, err := set.NewKubernetes(set.KubernetesConfig{REST: s.rest, Store: store.New()})
	if err != nil {
		t.Fatal(err)
	}
	good := registry.Record{
		RecordID: registry.RecordID{Cluster: "west", Pool: objectid.Pool{Namespace: "default", Name: "chat"}},
		UID:      "uid-of-west",
		Entry:    inferenceapi.ImportedCluster{Name: "west", RoutingMode: inferenceapi.ParentMode},
	}
	broken, withdrawn := good, good
	broken.Reason, broken.Message, withdrawn.Withdrawn = "NotSupported", "a part of it is unknown here", true
	for _, step := range []struct {
		what   string
		record registry.Record
		want   kstatus.Status
	}{
		{"it has no effect here", broken, kstatus.FailedStatus}, {"it is in use", good, kstatus.CurrentStatus},
		{"it has no effect here any more", broken, kstatus.FailedStatus},
		{"it drains", withdrawn, kstatus.InProgressStatus}, {"it is exported again", good, kstatus.CurrentStatus},
	} {
		if err := writer.Save(t.Context(), []registry.Record{step.record}, nil); err != nil {
			t.Fatal(err)
		}
		s.expectKstatus(t, step.what, o, step.want)
		if got := s.kstatus(t, o); step.want == kstatus.FailedStatus && got.Message != broken.Message {
			t.Errorf("%s: the message is %q, want %q", step.what, got.Message, broken.Message)
		}
	}
}

func (s *server) resource(o object) dynamic.ResourceInterface {
	kind := s.client.Resource(schema.GroupVersionResource{Group: o.group, Version: o.version, Resource: o.resource})
	if o.ofCluster() {
		return kind
	}
	return kind.Namespace("default")
}

func (s *server) kstatus(t *testing.T, o object) *kstatus.Result {
	t.Helper()
	u, err := s.resource(o).Get(t.Context(), o.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	result, err := kstatus.Compute(u)
	if err != nil {
		t.Fatalf("%s: %v", o.ref(), err)
	}
	return result
}

func (s *server) expectKstatus(t *testing.T, what string, o object, want kstatus.Status) {
	t.Helper()
	if got := s.kstatus(t, o); got.Status != want {
		t.Errorf("%s: %s is %s (%s), want %s", what, o.ref(), got.Status, got.Message, want)
	}
}
