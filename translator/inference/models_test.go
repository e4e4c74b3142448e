package inference_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
)

const models = chatPool + `
---
kind: InferenceModel
metadata: {name: first, creationTimestamp: "2025-01-01T00:00:00Z"}
spec: {modelName: llama, criticality: Critical, poolRef: {name: chat},
  targetModels: [{name: v1, weight: 75}, {name: v2, weight: 25}]}
---
kind: InferenceModel
metadata: {name: a-second, creationTimestamp: "2025-01-02T00:00:00Z"}
spec: {modelName: llama, poolRef: {name: chat}, targetModels: [{name: other}]}
---
kind: InferenceModel
metadata: {name: rank, creationTimestamp: "2025-01-01T00:00:00Z"}
spec: {modelName: batch, criticality: Sheddable, poolRef: {name: chat}}
---
kind: InferenceModel
metadata: {name: zero}
spec: {modelName: zero, poolRef: {name: chat}, targetModels: [{name: v1, weight: 0}]}
---
kind: InferenceModel
metadata: {name: half}
spec: {modelName: half, poolRef: {name: chat}, targetModels: [{name: v1, weight: 1}, {name: v2}]}
---
kind: InferenceModel
metadata: {name: lost}
spec: {modelName: lost, poolRef: {name: nowhere}}
---
kind: InferenceModel
metadata: {name: late, creationTimestamp: "2025-03-01T00:00:00Z"}
spec: {modelName: food, criticality: Critical, poolRef: {name: chat}, targetModels: [{name: late}]}
---
kind: InferenceModelRewrite
metadata: {name: young, creationTimestamp: "2025-02-02T00:00:00Z"}
spec:
  poolRef: {name: chat}
  rules:
  - {matches: [{model: {value: food}}, {model: {value: batch}}], targets: [{modelRewrite: young}]}
  - {matches: [{model: {value: batch}}], targets: [{modelRewrite: never}]}
  - {targets: [{modelRewrite: young-any}]}
---
kind: InferenceModelRewrite
metadata: {name: old, creationTimestamp: "2025-02-01T00:00:00Z"}
spec:
  poolRef: {name: chat}
  rules:
  - {targets: [{modelRewrite: any}]}
  - {matches: [{model: {value: food}}], targets: [{modelRewrite: food-v1, weight: 10},
      {modelRewrite: food-v2, weight: 90}]}
---
kind: InferenceModelRewrite
metadata: {name: useless, creationTimestamp: "2025-02-03T00:00:00Z"}
spec: {poolRef: {name: chat}, rules: [{targets: [{modelRewrite: useless}]}]}
---
kind: InferenceModelRewrite
metadata: {name: minus}
spec: {poolRef: {name: chat}, rules: [{targets: [{modelRewrite: a, weight: -3}]}]}
---
kind: InferenceObjective
metadata: {name: urgent}
spec: {poolRef: {name: chat}, priority: 10}
---
kind: InferenceObjective
metadata: {name: plain}
spec: {poolRef: {name: chat, group: inference.networking.k8s.io}}
`

func TestInferenceModel_OlderCountsAndExactGoesBeforeGeneric(t *testing.T) {
	got := inference.Models(world(t, models), objectid.Target{Pool: objectid.Pool{Namespace: "default", Name: "chat"}})
	want := &model.Models{
		Named: map[string]model.ModelRule{
			"llama": {
				Criticality: "Critical", Targets: []model.ModelTarget{
					{Name: "v1", Weight: 75}, {Name: "v2", Weight: 25},
				},
			},
			// The InferenceModel has no targets, so the rewrite sets them.
			"batch": {Criticality: "Sheddable", Targets: []model.ModelTarget{{Name: "young", Weight: 1}}},
			"food": {
				Criticality: "Critical", Targets: []model.ModelTarget{
					{Name: "food-v1", Weight: 10}, {Name: "food-v2", Weight: 90},
				},
			},
		},
		Other:      &model.ModelRule{Targets: []model.ModelTarget{{Name: "any", Weight: 1}}},
		Objectives: map[string]int32{"urgent": 10, "plain": 0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestInferenceModel_EachEndsInAConditionThatNamesTheField(t *testing.T) {
	v := world(t, models)
	for name, want := range map[string]string{
		"first": "True Accepted: ",
		"a-second": `False ModelNameInUse: spec.modelName: InferenceModel first, which is older or comes first by ` +
			`name, has model "llama" of InferencePool default/chat`,
		"zero": "False Invalid: spec.targetModels[0].weight: a weight of 0 is not 1 to 1000000; write a weight " +
			"in this range",
		"half": "False Invalid: spec.targetModels: 1 of 2 have a weight; write a weight for each, or for none",
		"lost": "False PoolNotFound: spec.poolRef.name: there is no InferencePool default/nowhere; name an " +
			"InferencePool of the same namespace",
		"late": "True Accepted: warning spec.targetModels: they have no effect: rule 1 of InferenceModelRewrite " +
			"old, which is older or comes first by name,",
	} {
		rep, _ := inference.ModelReport(v, direct{}, "default/"+name)
		accepts(t, name, rep, want)
	}
	for name, want := range map[string]string{
		"old": "True Accepted: ",
		"young": `True Accepted: warning spec.rules[0].matches[0]: it has no effect: rule 1 of ` +
			`InferenceModelRewrite old, which is older or comes first by name, rewrites model "food"`,
		"useless": "False Conflicted: spec.rules[0]: it has no effect: rule 0 of InferenceModelRewrite old, which is " +
			"older or comes first by name, rewrites all models without a rule of their own",
		"minus": "False Invalid: spec.rules[0].targets[0].weight: a weight of -3 is not 1 to 1000000",
	} {
		rep, _ := inference.RewriteReport(v, direct{}, "default/"+name)
		accepts(t, name, rep, want)
	}
	rep, _ := inference.RewriteReport(v, direct{}, "default/young")
	if found := texts(rep.Findings); !strings.Contains(found,
		"spec.rules[1].matches[0]: it has no effect: rule 0 rewrites") ||
		!strings.Contains(found, "spec.rules[2]: it has no effect") || len(rep.Findings) != 3 {
		t.Errorf("young: got %s, want 3 findings, of rules 1 and 2 without effect", found)
	}
	rep, _ = inference.ObjectiveReport(v, direct{}, "default/urgent")
	accepts(t, "urgent", rep, "True Accepted: info requests cannot name it: the header that does is a client's")
}

// accepts compares a report's condition Accepted and, if it is True, the first finding.
func accepts(t *testing.T, name string, rep report.Report, want string) {
	t.Helper()
	c := report.Find(rep.Conditions, "Accepted")
	if c == nil {
		t.Errorf("%s: got %+v, want the condition Accepted", name, rep)
		return
	}
	got := fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
	if c.Status == report.True && len(rep.Findings) > 0 {
		f := rep.Findings[0]
		got += strings.TrimSpace(fmt.Sprintf("%s %s", f.Severity, strings.TrimPrefix(f.Field+": "+f.Problem, ": ")))
	}
	if !strings.HasPrefix(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
	}
}

// For a pool with an external picker, Penstock must write no conditions: the picker's controller
// may read the object and write them.
func TestInferenceModel_OfAnExternalPickersPoolGetsNoCondition(t *testing.T) {
	v := world(t, bigPool+`  endpointPickerRef: {name: epp, port: {number: 9002}}
---
kind: InferenceModel
metadata: {name: m}
spec: {modelName: m, poolRef: {name: big}}
`)
	rep, _ := inference.ModelReport(v, direct{}, "default/m")
	if len(rep.Conditions) > 0 || !strings.Contains(texts(rep.Findings),
		"InferencePool default/big has an external picker, which decides alone") {
		t.Errorf("got %+v, want no conditions, and that the external picker decides alone", rep)
	}
}

// If a pool has InferenceModels, the picker needs bodies to find the model, even if its strategy
// reads none.
func TestInferenceModel_PoolGetsBodiesWhateverItsStrategy(t *testing.T) {
	const random = chatPool + `
---
kind: PoolPolicy
metadata: {name: p}
spec: {targetRef: {name: chat}, picker: {strategy: random}, spill: [{name: big}]}
---` + bigPool
	if p := pool(t, world(t, random), "default/chat"); p.Picker.Body != model.BodyNone || p.ViaHops() {
		t.Errorf("without models: body %q, via hops %v; want %q, false", p.Picker.Body, p.ViaHops(), model.BodyNone)
	}
	reads := pool(t,
		world(t,
			random+"---\nkind: InferenceModel\nmetadata: {name: m}\nspec: {modelName: m, poolRef: {name: chat}}\n"),
		"default/chat")
	if reads.Picker.Body != model.BodyBuffered || reads.ViaHops() {
		t.Errorf("with a model that keeps its name: body %q, via hops %v; want %q, false",
			reads.Picker.Body, reads.ViaHops(), model.BodyBuffered)
	}
	rewrites := pool(t,
		world(t,
			random+
				"---\nkind: InferenceModelRewrite\nmetadata: {name: m}\nspec: {poolRef: {name: chat}, rules: "+
				"[{targets: [{modelRewrite: x}]}]}\n"), "default/chat")
	if rewrites.Picker.Body != model.BodyBuffered || !rewrites.ViaHops() {
		t.Errorf("with a rewrite: body %q, via hops %v; want %q, true",
			rewrites.Picker.Body, rewrites.ViaHops(), model.BodyBuffered)
	}
}
