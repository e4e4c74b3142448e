package deployment_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/engine/deployment"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

const onGateway = "gatewayRefs: [{name: gw}]\nmodel: {name: qwen}\n"

func derived[T any](t *testing.T, p *deployment.Plan) (out T) {
	t.Helper()
	for _, obj := range p.Objects(nil) {
		if o, ok := obj.(T); ok {
			return o
		}
	}
	t.Fatalf("no %T is derived from %+v", out, p.Deployment.Spec)
	return out
}

func planned(t *testing.T, spec string) *deployment.Plan {
	t.Helper()
	p, found := deployment.New(read(t, spec), nil)
	if p == nil {
		t.Fatal(found)
	}
	return p
}

func TestScheduler_BecomesThePoolsPolicy(t *testing.T) {
	p := planned(t, onGateway+"engine: {name: llama-cpp}\n"+
		"scheduler: {strategy: chwbl, chwbl: {loadFactorPercent: 150}}\n")
	policy := derived[*v1alpha1.PoolPolicy](t, p).Spec
	if policy.TargetRef.Name != "qwen" || policy.Picker.Strategy != v1alpha1.StrategyCHWBL ||
		policy.Picker.CHWBL == nil || *policy.Picker.CHWBL.LoadFactorPercent != 150 ||
		policy.Picker.Metrics == nil || policy.Picker.Metrics.Engine != "llamacpp" {
		t.Errorf("the policy is %+v, want strategy chwbl with 150 %%, and llama.cpp's metrics", policy)
	}
}

func TestAccess_GatesTheRouteAndThePool(t *testing.T) {
	const access = "engine: {name: sim}\naccess: {apiKeys: {selector: {matchLabels: {team: a}}}, byModel: true}\n"
	for refs, want := range map[string]string{onGateway: "HTTPRoute qwen, InferencePool qwen",
		"model: {name: qwen}\n": "InferencePool qwen"} {
		policy := derived[*v1alpha1.AccessPolicy](t, planned(t, refs+access))
		var targets []string
		for _, target := range policy.Spec.TargetRefs {
			targets = append(targets, target.Kind+" "+target.Name)
		}
		if got := strings.Join(targets, ", "); got != want {
			t.Errorf("the targets are %s, want %s", got, want)
		}
		if policy.Name != "qwen" || !policy.Spec.ByModel || policy.Spec.APIKeys.Selector.MatchLabels["team"] != "a" {
			t.Errorf("the policy is %+v, want the deployment's selector and byModel", policy.Spec)
		}
	}
}

// A null in spec.access is probably a template without a value. It must not give everyone access to
// the model.
func TestAccess_NullLetsNothingIn(t *testing.T) {
	open := planned(t, onGateway+"engine: {name: sim}\n")
	for access, field := range map[string]string{"null": "spec.access",
		"{apiKeys: {selector: null}}":   "spec.access.apiKeys.selector",
		"{apiKeys: {namespaces: null}}": "spec.access.apiKeys.namespaces"} {
		d := read(t, onGateway+"engine: {name: sim}\naccess: "+access+"\n")
		p, found := deployment.New(d, nil)
		if p != nil || !slices.ContainsFunc(found, func(f report.Finding) bool {
			return f.Severity == report.Error && f.Field == field
		}) {
			t.Errorf("access: %s: plan %v, findings %v; want no plan and an error about %s", access, p, found, field)
		}
		gated := open.Gated(d)
		if policy := derived[*v1alpha1.AccessPolicy](t, gated).Spec; len(policy.Nulls) != 1 {
			t.Errorf("access: %s: the last good version has the policy %+v, want the null in it", access, policy)
		}
	}
	if open.Deployment.Spec.Access != nil {
		t.Error("the open version changes")
	}
}

func TestAccess_TheLastGoodVersionKeepsItsOwn(t *testing.T) {
	gated := planned(t, onGateway+"engine: {name: sim}\naccess: {apiKeys: {selector: {matchLabels: {team: a}}}}\n")
	for _, newer := range []string{"", "access: {apiKeys: {}}\n"} {
		p := gated.Gated(read(t, onGateway+"engine: {name: sim}\n"+newer))
		if s := derived[*v1alpha1.AccessPolicy](t, p).Spec.APIKeys.Selector; s == nil || s.MatchLabels["team"] != "a" {
			t.Errorf("with a newer version %q the selector is %v, want team a", newer, s)
		}
	}
}

func TestAdapters_BecomeArgumentsAndRules(t *testing.T) {
	const adapters = "adapters: [{name: sql, source: {path: '/a, b=\"c\"'}}, {name: food, source: {path: /food}}]\n"
	paths := map[string]string{"sql": `/a, b="c"`, "food": "/food"}
	for engine, want := range map[string]string{
		"vllm": `--enable-lora|--lora-modules|{"name":"sql","path":"/a, b=\"c\""}|{"name":"food","path":"/food"}`,
		"sim":  "--lora|sql|--lora|food",
	} {
		p := planned(t, onGateway+adapters+"engine: {name: "+engine+"}\nvariables: {max-num-seqs: 4}\n")
		c, err := p.Command(deployment.Server{Host: "127.0.0.1", Port: 1, Adapters: paths})
		if got := strings.Join(c.Args, "|"); err != nil || !strings.Contains(got, "|"+want+"|--max-num-seqs|4") {
			t.Errorf("%s: %s %v, want %s before the variables", engine, got, err, want)
		}
		var models []string
		for _, rule := range derived[*gatewayv1.HTTPRoute](t, p).Spec.Rules {
			models = append(models, fmt.Sprint(rule.Matches[0].Headers[0].Value, len(rule.Matches)))
		}
		if want := []string{"qwen4", "sql4", "food4"}; !slices.Equal(models, want) {
			t.Errorf("%s: the rules match %q, want %q", engine, models, want)
		}
		for _, claim := range p.Claims() {
			if claim.Model == "food" && claim.Field != "spec.adapters[1].name" {
				t.Errorf("%s: the claim of food is %+v", engine, claim)
			}
		}
	}
}

func TestAdapters_MistakesNameTheField(t *testing.T) {
	for spec, want := range map[string]string{
		"engine: {name: llama-cpp}\nadapters: [{name: sql}]": "spec.adapters: engine llama-cpp b11549 selects no " +
			"adapter by a request's model",
		"engine: {name: vllm}\nadapters: [{name: sql}]": "spec.adapters[0].source: is missing",
		"engine: {name: sim}\nadapters: [{name: qwen}]": "spec.adapters[0].name: is the name of the model itself",
		"engine: {name: sim}\nadapters: [{name: sql}]\nvariables: {lora: other}": "spec.variables.lora: the engine's " +
			"template sets --lora",
		"engine: {name: vllm}\nadapters: [{name: a, source: {path: /a}}]\nvariables: {enable_lora: true}": "spec." +
			"variables.enable_lora: the engine's template sets --enable-lora",
	} {
		p, found := deployment.New(read(t, onGateway+spec), nil)
		if p != nil || !slices.ContainsFunc(found, func(f report.Finding) bool {
			return f.Severity == report.Error && strings.Contains(f.Field+": "+f.Problem, want)
		}) {
			t.Errorf("%s: %v, want %s", spec, found, want)
		}
	}
}

func TestEnvironment_SecretsReplaceTheEnginesValues(t *testing.T) {
	p := planned(t, onGateway+"engine: {name: vllm}\nenv:\n"+
		"- {name: TOKEN, valueFrom: {secretKeyRef: {name: s, key: k}}}\n"+
		"- {name: DO_NOT_TRACK, valueFrom: {secretKeyRef: {name: s, key: l}}}\n")
	c, err := p.Command(deployment.Server{Secrets: map[string]string{"TOKEN": "${port}", "DO_NOT_TRACK": "0"}})
	got := map[string]string{}
	for _, env := range c.Env {
		got[env.Name] = env.Value
	}
	if err != nil || got["TOKEN"] != "${port}" || got["DO_NOT_TRACK"] != "0" {
		t.Errorf("the environment is %v %v, want the values of the Secret", got, err)
	}
}
