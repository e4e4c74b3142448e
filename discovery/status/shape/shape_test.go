package shape

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	upstream "sigs.k8s.io/gateway-api-inference-extension/apix/v1alpha1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

const us = "penstock.dev/gateway-controller"

func input(old any, rep report.Report) Input {
	return Input{Report: rep, Old: old, Generation: 3, Controller: us, Now: metav1.NewTime(time.Unix(1000, 0))}
}

var programmedReport = report.Report{
	Conditions: []report.Condition{{Type: "Accepted", Status: report.True, Reason: "Accepted"},
		{Type: "Programmed", Status: report.True, Reason: "Programmed"}},
}

func TestGatewayStatus_KeepsConditionsOfOtherProjects(t *testing.T) {
	old := &gatewayv1.GatewayStatus{Conditions: []metav1.Condition{
		{Type: "special.io/Field", Status: "True"},
		{Type: "Accepted", Status: "True", LastTransitionTime: metav1.NewTime(time.Unix(1, 0))},
		{Type: "Scheduled", Status: "True"},
	}}
	out := Gateway().Make(input(old, programmedReport)).(*gatewayv1.GatewayStatus)
	var types []string
	for _, c := range out.Conditions {
		types = append(types, c.Type)
	}
	if want := "special.io/Field Accepted Programmed"; strings.Join(types, " ") != want {
		t.Errorf("conditions %v, want %s", types, want)
	}
	if out.Conditions[1].LastTransitionTime.Unix() != 1 || out.Conditions[2].LastTransitionTime.Unix() != 1000 ||
		out.Conditions[1].ObservedGeneration != 3 {
		t.Errorf("conditions %+v, want generation 3, Accepted since 1 s, and Programmed since 1000 s", out.Conditions)
	}
	if len(old.Conditions) != 3 || old.Conditions[1].ObservedGeneration != 0 {
		t.Error("the old status was changed")
	}
}

func TestGatewayStatus_OfALaterGenerationOrAnotherClassIsKept(t *testing.T) {
	old := &gatewayv1.GatewayStatus{
		Conditions: []metav1.Condition{{Type: "Accepted", Status: "False", ObservedGeneration: 4}},
	}
	if out := Gateway().Make(input(old, programmedReport)); out != any(old) {
		t.Errorf("a status about a later generation became %+v, want it unchanged", out)
	}
	old.Conditions[0].ObservedGeneration = 3
	if out := Gateway().Make(
		input(old, report.Report{Findings: []report.Finding{{Problem: "of another class"}}})); out != any(old) {
		t.Errorf("the status of another controller's Gateway became %+v, want it unchanged", out)
	}
}

func TestGatewayClass_ListsItsFeaturesSorted(t *testing.T) {
	in := input(&gatewayv1.GatewayClassStatus{}, report.Report{Conditions: programmedReport.Conditions[:1]})
	in.Features = []gatewayv1.FeatureName{"HTTPRoute", "Gateway"}
	in.Supported = &report.Condition{Type: "SupportedVersion", Status: report.True, Reason: "SupportedVersion"}
	out := GatewayClass().Make(in).(*gatewayv1.GatewayClassStatus)
	if len(out.SupportedFeatures) != 2 || out.SupportedFeatures[0].Name != "Gateway" || len(out.Conditions) != 2 {
		t.Errorf("got %+v, want Gateway first of 2 features, and 2 conditions", out)
	}
}

func TestInferencePool_HasAnEntryPerGatewayAndKeepsOthers(t *testing.T) {
	old := &inferencev1.InferencePoolStatus{Parents: []inferencev1.ParentStatus{
		{ParentRef: inferencev1.ParentReference{Kind: "Status", Name: "default"}},
		{ParentRef: inferencev1.ParentReference{Name: "theirs"}, ControllerName: "other.example/c"},
		{ParentRef: inferencev1.ParentReference{Name: "gone"}, ControllerName: us},
	}}
	in := input(old, report.Report{Parents: []report.Parent{{
		Ref: report.ParentRef{Group: "gateway.networking.k8s.io", Kind: "Gateway", Namespace: "default",
			Name: "gw"},
		Conditions: programmedReport.Conditions[:1],
	}}})
	in.Object = &inferencev1.InferencePool{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	out := InferencePool().Make(in).(*inferencev1.InferencePoolStatus)
	var names []string
	for _, p := range out.Parents {
		names = append(names, string(p.ParentRef.Name)+" "+string(p.ControllerName))
	}
	if diff := cmp.Diff([]string{"theirs other.example/c", "gw " + us}, names); diff != "" {
		t.Error(diff)
	}
	in.Old = out
	if again := InferencePool().Make(in); !cmp.Equal(again, any(out)) {
		t.Error("the same input gives another status: it would be written again and again")
	}
}

// The entry about imports and the entries about Gateways have different controllerNames. With the
// same name, each of the two controllers would remove the entries of the other.
func TestInferencePool_ExportedIsTheMultiClusterControllers(t *testing.T) {
	rep := report.Report{Parents: []report.Parent{
		{Ref: report.ParentRef{Group: "gateway.networking.k8s.io", Kind: "Gateway", Namespace: "default", Name: "gw"},
			Conditions: programmedReport.Conditions[:1]},
		{Ref: report.ParentRef{Group: inferenceapi.Group, Kind: "InferencePoolImport", Namespace: "default", Name: "p"},
			Conditions: []report.Condition{{Type: "Exported", Status: report.True, Reason: "Exported"}}},
	}}
	in := input(&inferencev1.InferencePoolStatus{}, rep)
	in.Object = &inferencev1.InferencePool{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	out := InferencePool().Make(in).(*inferencev1.InferencePoolStatus)
	if len(out.Parents) != 2 || out.Parents[0].ControllerName != us || out.Parents[1].ControllerName != MultiCluster ||
		out.Parents[1].Conditions[0].Type != "Exported" {
		t.Fatalf("parents: got %+v, want ours, and then Exported by the multi-cluster controller", out.Parents)
	}
	in.Old, in.Report.Parents = out, rep.Parents[:1]
	if out = InferencePool().Make(in).(*inferencev1.InferencePoolStatus); len(out.Parents) != 1 ||
		out.Parents[0].ControllerName != us {
		t.Errorf("without the annotation: got %+v, want ours alone", out.Parents)
	}
}

// Translation must not read the clusters that Penstock wrote into an import's status. While no
// process leads, they may be out of date, and requests would go to a member that has withdrawn its
// export.
func TestInferencePoolImport_TranslationDoesNotReadTheMirror(t *testing.T) {
	imp := &inferenceapi.InferencePoolImport{Status: inferenceapi.InferencePoolImportStatus{
		Clusters: []inferenceapi.ImportedCluster{{Name: "east"}, {Name: "gitops"}},
		Controllers: []upstream.ImportController{
			{Name: MultiCluster, ExportingClusters: []upstream.ExportingCluster{{Name: "east"}}},
		},
	}}
	status := InferencePoolImport().Take(imp).(*inferenceapi.InferencePoolImportStatus)
	if len(imp.Status.Clusters) != 1 || imp.Status.Clusters[0].Name != "gitops" || len(status.Clusters) != 2 {
		t.Errorf("translation reads %+v of %+v, want gitops of 2", imp.Status.Clusters, status.Clusters)
	}
}

func TestInferencePoolImport_StatusOfOtherControllersIsKept(t *testing.T) {
	theirs := upstream.ImportController{Name: "example.com/multi-cluster",
		ExportingClusters: []upstream.ExportingCluster{{Name: "east"}}}
	conditions := []metav1.Condition{{Type: "Accepted", Status: "False", Reason: "Theirs"}}
	imp := &inferenceapi.InferencePoolImport{Status: inferenceapi.InferencePoolImportStatus{
		Clusters: []inferenceapi.ImportedCluster{{Name: "east"}}, Controllers: []upstream.ImportController{theirs},
		Conditions: conditions, ObservedGeneration: 7,
	}}
	shape := InferencePoolImport()
	old := shape.Take(imp)
	if len(imp.Status.Clusters) != 1 {
		t.Fatal("status.clusters was cleared; translation reads it")
	}
	want := *old.(*inferenceapi.InferencePoolImportStatus)
	group := inferencev1.Group("gateway.networking.k8s.io")
	want.Controllers = []upstream.ImportController{theirs, {Name: us, Parents: []inferencev1.ParentStatus{{
		ParentRef:      inferencev1.ParentReference{Group: &group, Kind: "Gateway", Namespace: "default", Name: "gw"},
		ControllerName: us,
		Conditions: []metav1.Condition{
			{Type: "Accepted", Status: "True", Reason: "Accepted", ObservedGeneration: 3,
				LastTransitionTime: metav1.NewTime(time.Unix(1000, 0))},
		},
	}}}}
	used := input(old, report.Report{Parents: []report.Parent{{
		Ref: report.ParentRef{Group: "gateway.networking.k8s.io", Kind: "Gateway", Namespace: "default",
			Name: "gw"},
		Conditions: programmedReport.Conditions[:1],
	}}})
	used.Object = imp
	out := shape.Make(used)
	if diff := cmp.Diff(&want, out); diff != "" {
		t.Errorf("anything but our own entry changed (-want +got):\n%s", diff)
	}
	unused := input(out, report.Report{Conditions: programmedReport.Conditions[:1]})
	unused.Object = imp
	if diff := cmp.Diff(old, shape.Make(unused)); diff != "" {
		t.Errorf("without a Gateway, our entry must go and nothing else (-want +got):\n%s", diff)
	}
	if out := shape.Make(input(old, report.Report{Conditions: programmedReport.Conditions[:1]})); out != old {
		t.Errorf("an import that no Gateway uses is written: got %+v, want it unchanged", out)
	}
}

func TestGatewayStatus_DropsOurConditionOnceItIsNotReported(t *testing.T) {
	conditions := append([]report.Condition{{Type: "penstock.dev/RolledOut", Status: report.False, Reason: "Stuck"}},
		programmedReport.Conditions...)
	old := &gatewayv1.GatewayStatus{
		Conditions: []metav1.Condition{{Type: "example.com/Theirs", Status: metav1.ConditionTrue}},
	}
	with := Gateway().Make(input(old, report.Report{Conditions: conditions})).(*gatewayv1.GatewayStatus)
	programmed := report.Report{Conditions: programmedReport.Conditions}
	without := Gateway().Make(input(with, programmed)).(*gatewayv1.GatewayStatus)
	if find(with.Conditions, "penstock.dev/RolledOut") == nil ||
		find(without.Conditions, "penstock.dev/RolledOut") != nil ||
		find(without.Conditions, "example.com/Theirs") == nil {
		t.Errorf("first %+v, then %+v; want RolledOut in the first alone, and theirs in both",
			with.Conditions, without.Conditions)
	}
}

func TestInferencePoolImport_ConditionsOfOtherControllersAreKeptWhileTheyAreFalse(t *testing.T) {
	no := metav1.Condition{Type: "Accepted", Status: metav1.ConditionFalse, Reason: "Paused", Message: "changes",
		LastTransitionTime: metav1.Now()}
	yes := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready"}
	controller := func(name upstream.ControllerName) upstream.ImportController {
		return upstream.ImportController{Name: name, ExportingClusters: []upstream.ExportingCluster{{Name: "east"}},
			Conditions: []metav1.Condition{yes, no}}
	}
	imp := &inferenceapi.InferencePoolImport{Status: inferenceapi.InferencePoolImportStatus{
		Conditions: []metav1.Condition{yes, no}, Controllers: []upstream.ImportController{
			controller("example.net/c"), {Name: "example.net/gateways", Conditions: []metav1.Condition{no}},
		},
	}}
	InferencePoolImport().Take(imp)
	kept := metav1.Condition{Type: "Accepted", Status: metav1.ConditionFalse, Reason: "Paused"}
	want := []upstream.ImportController{
		{Name: "example.net/c", ExportingClusters: []upstream.ExportingCluster{{Name: "east"}},
			Conditions: []metav1.Condition{kept}},
	}
	if s := imp.Status; !reflect.DeepEqual(s.Conditions, []metav1.Condition{kept}) ||
		!reflect.DeepEqual(s.Controllers, want) {
		t.Errorf("kept %+v and %+v, want %+v and %+v", s.Conditions, s.Controllers, kept, want)
	}
	imp.Status = inferenceapi.InferencePoolImportStatus{
		Conditions: []metav1.Condition{no}, Controllers: []upstream.ImportController{controller(MultiCluster)},
	}
	InferencePoolImport().Take(imp)
	if s := imp.Status; len(s.Conditions)+len(s.Controllers) > 0 {
		t.Errorf("got %+v, want none of Penstock's own conditions", s)
	}
}
