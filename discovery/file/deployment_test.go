package file_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

const deploymentHead = "apiVersion: penstock.dev/v1alpha1\nkind: ModelDeployment\nmetadata: {name: qwen}\n"

func deploymentWith(more string) string {
	return deploymentHead + "spec: {engine: {name: sim}, model: {name: qwen}, gatewayRefs: [{name: gw}]" + more + "}\n"
}

// If a user adds an invalid spec.access to a deployment without access control, its InferencePool
// is closed until the document is corrected.
func TestModelDeployment_AnInvalidAccessClosesIt(t *testing.T) {
	const closed = "default/qwen#access InferencePool qwen/"
	for name, c := range map[string]struct{ text, want string }{
		"unknown field":       {deploymentWith(", access: {apiKeyz: {}}"), closed},
		"wrong type":          {deploymentWith(", access: 7"), closed},
		"rule":                {deploymentWith(", access: {}"), closed},
		"targets":             {deploymentWith(", access: {apiKeys: {}, targetRefs: []}"), closed},
		"a mistake elsewhere": {deploymentWith(", access: {apiKeys: {}}, replica: 2"), closed},
		"duplicate key":       {deploymentWith(", access: {apiKeys: {}}, access: {apiKeys: {}}"), closed},
		"no YAML":             {deploymentWith(", access: {apiKeys: {}"), closed},
		"no name":             {strings.Replace(deploymentWith(", access: {apiKeys: {}}"), "qwen}", "}", 1), closed},
		"second definition":   {deploymentWith("") + "---\n" + deploymentWith(", access: {apiKeys: {}}"), closed},
		"no access":           {deploymentWith(", replica: 2"), ""},
		"valid":               {deploymentWith(", access: {apiKeys: {}}"), ""},
	} {
		f := newFolder(t)
		f.write("x.yaml", deploymentWith(""))
		f.load()
		f.expectClosed(name + ", before")
		f.write("x.yaml", c.text)
		var want []string
		if c.want != "" {
			want = append(want, c.want)
		}
		for _, when := range []string{"", " after a restart"} {
			f.load()
			f.expectClosed(name+when, want...)
			f.restart()
		}
		f.write("x.yaml", deploymentWith(", access: {apiKeys: {}}"))
		f.load()
		f.expectClosed(name + ", corrected")
	}
	f := newFolder(t) // no version is in use, so nothing is open
	f.write("x.yaml", deploymentWith(", access: 7"))
	f.load()
	f.expectClosed("a new deployment")
	f.write("x.yaml", deploymentWith(", access: {apiKeys: {}}"))
	f.load()
	f.write("x.yaml", deploymentWith(", access: 7"))
	f.load()
	f.expectClosed("a gated deployment, whose last good version is gated")
}

func TestModelDeployment_NeutreesNamesAreTranslated(t *testing.T) {
	for _, c := range []struct{ text, field, want string }{
		{"{type: consistent_hash, chwbl: {loadFactorPercent: 125}}", "type",
			"is Neutree's form: \"consistent_hash\"; write strategy: chwbl"},
		{"{strategy: roundrobin}", "strategy", "is Neutree's form: \"roundrobin\"; write strategy: round-robin"},
		{"{strategy: chwbl, load_factor: 1.25}", "load_factor",
			"belongs into chwbl here; write chwbl: {loadFactorPercent: 125}"},
		{"{strategy: chwbl, loadFactorPercent: 150}", "loadFactorPercent",
			"belongs into chwbl here; write chwbl: {loadFactorPercent: 150}"},
		{"{strategy: chwbl, chwbl: {load_factor: 1.5}}", "chwbl.load_factor",
			"is not a known field; did you mean loadFactorPercent: 150?"},
		{"{strategy: chwbl, chwbl: {loadFactorPercent: 1.1}}", "chwbl.loadFactorPercent",
			"is a percentage, at least 100; did you mean 110?"},
		{"{strategy: chwbl, chwbl: {virtual_nodes_per_replica: 50}}", "chwbl.virtual_nodes_per_replica",
			"is not a known field; did you mean virtualNodesPerReplica: 50?"},
		{"{strategy: chwbl, chwbl: {max_user_messages_for_cache: 3}}", "chwbl.max_user_messages_for_cache",
			"is not a known field; did you mean maxUserMessagesForCache: 3?"},
		{"{strategy: chwbl, chwbl: {loadFactorPercent: 125}}", "", ""},
	} {
		f := newFolder(t)
		f.write("x.yaml", deploymentWith(", scheduler: "+c.text))
		f.load()
		want := "spec.scheduler." + c.field + ": " + c.want
		if got := f.mistakes(); c.want == "" && got != "" || c.want != "" && got != want {
			t.Errorf("%s: got %s, want %s", c.text, got, want)
		}
	}
}

func TestModelDeployment_MistakesInResourcesNameTheField(t *testing.T) {
	const cores = "write a number of cores above 0, such as 4 or 500m"
	const memory = "write an amount from 1Mi to 1P, such as 16Gi"
	for _, c := range []struct{ text, want string }{
		{"resources: {cpu: 0}", "spec.resources.cpu: " + cores},
		{"resources: {cpu: -500m}", "spec.resources.cpu: " + cores},
		{"resources: {cpu: '1e18'}", "spec.resources.cpu: " + cores},
		{"resources: {cpu: 1.5}", "spec.resources.cpu: must be an integer or a string, is a number; put the value in " +
			"quotes"},
		{"replicas: 1.5", "spec.replicas: must be an integer, is a number; write an integer from 0 to 256"},
		{"resources: {cpu: four}", "spec.resources.cpu: has an invalid format: \"four\"; write a quantity such as 4"},
		{"resources: {memory: 16}", "spec.resources.memory: " + memory},
		{"resources: {memory: '1e30'}", "spec.resources.memory: " + memory},
		{"resources: {memory: -1Gi}", "spec.resources.memory: " + memory},
		{"resources: {memory: 16GB}", "spec.resources.memory: has an invalid format: \"16GB\"; write a quantity"},
		{"placement: {strategy: spread}", "spec.placement.strategy: must be one of Pack, Spread, is \"spread\"; " +
			"write Spread"},
		{"resources: {cpu: 500m, memory: 16Gi}, placement: {strategy: Spread}", ""},
		{"resources: {cpu: 4, memory: '2e9'}", ""},
	} {
		f := newFolder(t)
		f.write("x.yaml", deploymentWith(", "+c.text))
		f.load()
		if got := f.mistakes(); c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %s, want %s", c.text, got, c.want)
		}
	}
}

// An environment variable with a name but no value is valid and has an empty value, because Go
// clients, and the last good form, omit an empty value.
func TestModelDeployment_AVariableWithANameAloneIsEmpty(t *testing.T) {
	raw, err := yaml.Marshal([]v1alpha1.DeploymentEnv{{Name: "A"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, env := range []string{string(raw), "[{name: A, value: ''}]", "[{name: A, value: null}]"} {
		d := valid(t, store.ModelDeployments, deploymentHead+"spec:\n  engine: {name: sim}\n  model: {name: qwen}\n"+
			"  env:\n    "+strings.ReplaceAll(strings.TrimSpace(env), "\n", "\n    ")+"\n")
		if got := d.Spec.Env; len(got) != 1 || got[0].Name != "A" || got[0].Value != "" || got[0].ValueFrom != nil {
			t.Errorf("%s: got %+v, want A with the empty string", env, got)
		}
	}
}

// mistakes returns the findings of all objects, one line each, with field, problem and fix.
func (f *folder) mistakes() string {
	var all []string
	for _, r := range f.reported {
		for _, found := range r.Findings {
			all = append(all, found.Field+": "+found.Problem+"; "+found.Fix)
		}
	}
	return strings.Join(all, "\n")
}
