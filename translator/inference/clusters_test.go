package inference_test

import (
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
)

// documented returns documents with an import's policy whose EndpointPickerConfig has these
// plugins: once as an object, and once as text in a ConfigMap.
func documented(plugins, more string) []string {
	policy := func(ref string) string {
		return "\n---\nkind: PoolPolicy\nmetadata: {name: p}\nspec: {targetRef: {kind: InferencePoolImport, name: " +
			"llm}, picker: {strategy: plugins, configRef: {" + ref + "}}" + more + "}\n"
	}
	return []string{
		policy("kind: EndpointPickerConfig, name: c") +
			"---\nkind: EndpointPickerConfig\nmetadata: {name: c}\nplugins: [" + plugins + "]\n",
		policy("name: c") +
			"---\nkind: ConfigMap\nmetadata: {name: c}\ndata: {config: 'apiVersion: llm-d.ai/v1\n\n  kind: " +
			"EndpointPickerConfig\n\n  plugins: [" + plugins + "]'}\n",
	}
}

func TestLeastLoad_EndpointPickerConfigForClustersIsASelection(t *testing.T) {
	const load, prefix, session = "{type: multicluster-queue-scorer}, {type: multicluster-kv-cache-utilization-scorer}",
		", {type: multicluster-prefix-cache-scorer}", ", {type: multicluster-session-affinity-filter}"
	for plugins, want := range map[string]struct {
		body     model.BodyMode
		sessions bool
	}{
		load: {model.BodyNone, false}, load + prefix: {model.BodyBuffered, false},
		load + session: {model.BodyNone, true},
	} {
		for _, policy := range documented(plugins, "") {
			_, imp := imported(t, llmImport+westHost+policy)
			if c := imp.Choice; c == nil || c.Latency || c.Picker.Body != want.body || c.Sessions != want.sessions {
				t.Errorf("%s: got %+v, want body %s, sessions %t; findings %s",
					policy, c, want.body, want.sessions, texts(imp.Findings))
			}
			if text := texts(imp.Findings); strings.Contains(text, "spec.picker") {
				t.Errorf("%s: findings %s, want none of spec.picker", policy, text)
			}
		}
	}
	for _, policy := range documented(load, ", selection: {policy: LeastLoad, localMargin: 2s}") {
		if _, imp := imported(t, llmImport+westHost+policy); imp.Choice == nil || imp.Choice.Margin.Seconds() != 2 {
			t.Errorf("with a margin: got %+v, want 2s", imp.Choice)
		}
	}
}

func TestLeastLoad_EndpointPickerConfigThatCannotBeUsedIsAFinding(t *testing.T) {
	for _, c := range []struct{ plugins, more, want string }{
		{"{type: multicluster-queue-scorer}, {type: queue-scorer}", "", "queue-scorer chooses among model servers"},
		{"{type: multicluster-queue-scorer}", ", selection: {policy: Locality}",
			"spec.picker.configRef: the document has no effect: spec.selection has a policy or an affinity of its " +
				"own; remove picker.configRef"},
		{
			"{type: queue-scorer}", "",
			"spec.picker.strategy: it and spec.picker.configRef have no effect: the picker of the exporting " +
				"cluster decides",
		},
	} {
		_, imp := imported(t, llmImport+westHost+documented(c.plugins, c.more)[1])
		if text := texts(imp.Findings); imp.Choice != nil || !strings.Contains(text, c.want) {
			t.Errorf("%s: %+v; %s, want a text with %q", c.plugins, imp.Choice, text, c.want)
		}
	}
	_, imp := imported(t,
		llmImport+westHost+strings.Replace(documented("{type: multicluster-queue-scorer}", "")[0],
			"kind: EndpointPickerConfig, name: c", "kind: EndpointPickerConfig, name: d", 1))
	if text := texts(imp.Findings); imp.Choice != nil ||
		!strings.Contains(text, "spec.picker.configRef.name: there is no valid EndpointPickerConfig default/d") ||
		strings.Contains(text, "no effect") {
		t.Errorf("got findings %s, want that default/d does not exist, and no choice", text)
	}
	v := world(t, "kind: InferencePool\nmetadata: {name: llm}\nspec: {targetPorts: [{number: 80}]}\n"+
		strings.Replace(documented("{type: multicluster-queue-scorer}", "")[0], "kind: InferencePoolImport, ", "", 1))
	p, _ := inference.Pool(v, "default/llm")
	if text := texts(p.Findings); p.Settings.Plugins != nil ||
		!strings.Contains(text,
			"spec.picker.configRef: its plugins choose among clusters, and the policy is for a pool; write a "+
				"PoolPolicy whose targetRef is an InferencePoolImport") {
		t.Errorf("of a pool: got %+v; %s, want no plugins, and that they choose among clusters",
			p.Settings.Plugins, text)
	}
	if rep, ok := inference.PolicyReport(v, direct{}, "default/p"); !ok ||
		report.Find(rep.Conditions, "ResolvedRefs").Reason != "InvalidConfigRef" {
		t.Errorf("got %+v, want ResolvedRefs with reason InvalidConfigRef", rep)
	}
}
