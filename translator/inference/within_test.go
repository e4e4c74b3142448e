package inference_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/inference"
)

func within(name, target, clusters string) string {
	return `
---
kind: PoolPolicy
metadata: {name: ` + name + `}
spec: {targetRef: {kind: InferencePoolImport, name: ` + target + `}, selection: {within: {clusters: [` + clusters + `]}}}
`
}

func TestWithin_ClusterOutsideIsNotPartOfTheImport(t *testing.T) {
	v, imp := imported(t, llmImport+westHost+within("p", "llm", "east, nowhere"))
	if len(imp.Members) != 1 || imp.Members[0].Name != "east" || imp.Ready.Status != report.True {
		t.Errorf("%+v, ready %+v", imp.Members, imp.Ready)
	}
	if clusters, _, _ := resolve(v, "llm"); !slices.Equal(clusters, []string{"import/default/llm/east"}) {
		t.Errorf("llm goes to %v", clusters)
	}
	if clusters, _, reason := resolve(v, "llm-west-2"); len(clusters) > 0 || reason != "BackendNotFound" {
		t.Errorf("llm-west-2, which is outside, goes to %v: %q", clusters, reason)
	}
	if rep, ok := inference.PolicyReport(v, direct{}, "default/p"); !ok || rep.Conditions[0].Reason != "Accepted" || len(rep.Findings) > 0 {
		t.Errorf("%+v", rep)
	}
}

func TestWithin_LeavingNoClusterIsReportedOnThePolicy(t *testing.T) {
	v, imp := imported(t, llmImport+westHost+within("p", "llm", "north"))
	if len(imp.Members) != 0 || imp.Ready.Status != report.False {
		t.Errorf("%+v, ready %+v", imp.Members, imp.Ready)
	}
	if clusters, _, _ := resolve(v, "llm"); len(clusters) > 0 {
		t.Errorf("llm goes to %v", clusters)
	}
	want := "spec.selection.within: it leaves no cluster of InferencePoolImport default/llm, which east, west-2 export"
	if text := texts(imp.Findings); !strings.Contains(text, want) || strings.Contains(text, "no effect") {
		t.Errorf("findings: %s", text)
	}
	if rep, _ := inference.PolicyReport(v, direct{}, "default/p"); len(rep.Conditions) != 2 || rep.Conditions[1].Reason != "NoClusterWithin" || !strings.Contains(rep.Conditions[1].Message, "which east, west-2 export") {
		t.Errorf("conditions of the policy: %+v", rep.Conditions)
	}
}

func TestWithin_PolicyOfOneClusterHasNoEffectAndIsReported(t *testing.T) {
	v, imp := imported(t, llmImport+westHost+within("p", "llm-east", "west-2"))
	if clusters, _, _ := resolve(v, "llm"); len(clusters) != 2 {
		t.Errorf("llm goes to %v", clusters)
	}
	if text := texts(imp.Findings); !strings.Contains(text, "spec.selection: it has no effect") || !strings.Contains(text, "the policy is for one of them") {
		t.Errorf("findings: %s", text)
	}
}

func TestWithin_OlderOfTwoPoliciesCounts(t *testing.T) {
	v, _ := imported(t, llmImport+westHost+within("a", "llm", "east")+within("b", "llm", "west-2"))
	if clusters, _, _ := resolve(v, "llm"); !slices.Equal(clusters, []string{"import/default/llm/east"}) {
		t.Errorf("llm goes to %v", clusters)
	}
	if rep, _ := inference.PolicyReport(v, direct{}, "default/b"); rep.Conditions[0].Reason != "Conflicted" {
		t.Errorf("%+v", rep.Conditions)
	}
}
