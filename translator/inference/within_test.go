package inference_test

import (
	"fmt"
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
spec: {targetRef: {kind: InferencePoolImport, name: ` + target + `},
  selection: {within: {clusters: [` + clusters + `]}}}
`
}

func TestWithin_ClusterOutsideIsNotPartOfTheImport(t *testing.T) {
	v, imp := imported(t, llmImport+westHost+within("p", "llm", "east, nowhere"))
	if len(imp.Members) != 1 || imp.Members[0].Name != "east" || imp.Ready.Status != report.True {
		t.Errorf("got %+v, ready %+v; want east alone, True", imp.Members, imp.Ready)
	}
	if clusters, _, _ := resolve(v, "llm"); !slices.Equal(clusters, []string{"import/default/llm/east"}) {
		t.Errorf("llm goes to %v, want %v", clusters, []string{"import/default/llm/east"})
	}
	if clusters, _, reason := resolve(v, "llm-west-2"); len(clusters) > 0 || reason != "BackendNotFound" {
		t.Errorf(`llm-west-2, which is outside, goes to %v: %q, want none and "BackendNotFound"`, clusters, reason)
	}
	if rep, ok := inference.PolicyReport(v, direct{}, "default/p"); !ok || rep.Conditions[0].Reason != "Accepted" ||
		len(rep.Findings) > 0 {
		t.Errorf("got %+v, want it Accepted, without findings", rep)
	}
}

func TestWithin_LeavingNoClusterIsReportedOnThePolicy(t *testing.T) {
	v, imp := imported(t, llmImport+westHost+within("p", "llm", "north"))
	if len(imp.Members) != 0 || imp.Ready.Status != report.False {
		t.Errorf("%+v, ready %+v, want none and Status %v", imp.Members, imp.Ready, report.False)
	}
	if clusters, _, _ := resolve(v, "llm"); len(clusters) > 0 {
		t.Errorf("llm goes to %v, want none", clusters)
	}
	want := "spec.selection.within: it leaves no cluster of InferencePoolImport default/llm, which east, west-2 export"
	if text := texts(imp.Findings); !strings.Contains(text, want) || strings.Contains(text, "no effect") {
		t.Errorf("findings: got %s, want %s, and none without effect", text, want)
	}
	if rep, _ := inference.PolicyReport(v, direct{}, "default/p"); len(rep.Conditions) != 2 ||
		rep.Conditions[1].Reason != "NoClusterWithin" ||
		!strings.Contains(rep.Conditions[1].Message, "which east, west-2 export") {
		t.Errorf("conditions of the policy: got %+v, want the second NoClusterWithin", rep.Conditions)
	}
}

func TestWithin_PolicyOfOneClusterHasNoEffectAndIsReported(t *testing.T) {
	v, imp := imported(t, llmImport+westHost+within("p", "llm-east", "west-2"))
	if clusters, _, _ := resolve(v, "llm"); len(clusters) != 2 {
		t.Errorf("llm goes to %v, want 2 of them", clusters)
	}
	if text := texts(imp.Findings); !strings.Contains(text, "spec.selection: it has no effect") ||
		!strings.Contains(text, "the policy is for one of them") {
		t.Errorf("findings: got %s, want that spec.selection has no effect: the policy is for one cluster", text)
	}
}

func TestWithin_OlderOfTwoPoliciesCounts(t *testing.T) {
	v, _ := imported(t, llmImport+westHost+within("a", "llm", "east")+within("b", "llm", "west-2"))
	if clusters, _, _ := resolve(v, "llm"); !slices.Equal(clusters, []string{"import/default/llm/east"}) {
		t.Errorf("llm goes to %v, want %v", clusters, []string{"import/default/llm/east"})
	}
	if rep, _ := inference.PolicyReport(v, direct{}, "default/b"); rep.Conditions[0].Reason != "Conflicted" {
		t.Errorf("got %+v, want Conflicted", rep.Conditions)
	}
}

// A name that no cluster of the set has must get a warning. A known cluster may start to export the
// pool later, so its name gets no warning. If no cluster is known, no name gets one.
func TestSelection_NameThatNoClusterHasIsWarnedOf(t *testing.T) {
	const order = `
---
kind: PoolPolicy
metadata: {name: p}
spec: {targetRef: {kind: InferencePoolImport, name: llm}, selection: {policy: Priority, order: [east, north, wset-2],
  within: {clusters: [east, west-2, nroth]}}}
`
	const set = `
---
kind: Membership
metadata: {name: own}
cluster: here
names: [east, north, west-2]
`
	const absent = `info spec.selection.order[1]: cluster "north" does not export InferencePoolImport default/llm now`
	for documents, want := range map[string][]string{
		order: {
			absent,
			`info spec.selection.order[2]: cluster "wset-2" does not export InferencePoolImport default/llm now`,
		},
		order + set: {absent, `warning spec.selection.order[2]: no cluster of the ClusterSet has the name "wset-2"`,
			`warning spec.selection.within.clusters[2]: no cluster of the ClusterSet has the name "nroth"`},
	} {
		_, imp := imported(t, llmImport+westHost+documents)
		var got []string
		for _, f := range imp.Findings {
			if f.Owner.Kind == "PoolPolicy" {
				got = append(got, fmt.Sprintf("%s %s: %s", f.Severity, f.Field, f.Problem))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q\nwant %q", got, want)
		}
	}
}
