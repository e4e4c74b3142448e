package inference_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
)

const scorers = `
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
metadata: {name: scorers}
plugins: [{type: prefix-cache-scorer}, {type: queue-scorer}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: prefix-cache-scorer, weight: 3},
  {pluginRef: queue-scorer, weight: 2}]}]
`

func configMap(doc string, keys ...string) string {
	text := "\n---\nkind: ConfigMap\nmetadata: {name: scorers}\ndata:\n"
	for _, key := range keys {
		text += "  " + key + ": |\n    " + strings.ReplaceAll(strings.TrimSpace(doc), "\n", "\n    ") + "\n"
	}
	return text
}

func TestPoolPolicy_PluginsReachThePicker(t *testing.T) {
	for name, tt := range map[string]struct{ picker, more string }{
		"inline": {
			"{strategy: plugins, plugins: {scorers: [{type: prefix-cache-scorer, weight: 3}, {type: queue-scorer, " +
				"weight: 2}]}}", "",
		},
		"document": {"{strategy: plugins, configRef: {kind: EndpointPickerConfig, name: scorers}}",
			"\n---\n" + scorers},
		"ConfigMap":    {"{strategy: plugins, configRef: {name: scorers}}", configMap(scorers, "config.yaml")},
		"one of three": {"{strategy: plugins, configRef: {name: scorers, key: b}}", configMap(scorers, "a", "b", "c")},
	} {
		p := pool(t, world(t, poolWith(tt.picker)+tt.more), "default/chat")
		profile := p.Settings.Plugins
		if profile == nil || len(profile.Scorers) != 2 || profile.Scorers[0].Weight != 3 ||
			profile.Scorers[1].Type != "queue-scorer" || profile.Picker != "max-score-picker" || len(p.Findings) > 0 {
			t.Errorf("%s: got %+v, findings %v; want two scorers, queue-scorer second, max-score-picker, and none",
				name, profile, p.Findings)
		}
		if !p.Settings.Prefix || p.Settings.EveryBody || p.Picker.Body != model.BodyBuffered {
			t.Errorf("%s: got %+v, want prompts read, for their prefixes alone", name, p.Settings)
		}
	}
}

func TestFlowControl_DocumentTurnsItOnUnlessThePolicyDoes(t *testing.T) {
	doc := scorers +
		"featureGates: [flowControl]\nflowControl: {defaultRequestTTL: 30s, defaultPriorityBand: {maxRequests: 7}}\n"
	for policy, want := range map[string]model.FlowControl{
		"{strategy: plugins, configRef: {name: scorers}}": {
			On: true, TTL: 30 * time.Second, EmptyTTL: 30 * time.Second, Requests: 7,
		},
		"{strategy: plugins, configRef: {name: scorers}, flowControl: {ttlSeconds: 20}}": {
			On: true, TTL: 20 * time.Second,
		},
	} {
		p := pool(t, world(t, poolWith(policy)+configMap(doc, "a")), "default/chat")
		if diff := cmp.Diff(want, p.Settings.FlowControl); diff != "" {
			t.Errorf("%s: flow control (-want +got):\n%s", policy, diff)
		}
		if both := strings.Contains(policy, "ttl"); len(p.Findings) > 0 != both ||
			both && !strings.Contains(p.Findings[0].Problem, "the document's flowControl has no effect") {
			t.Errorf("%s: findings %v, want that the document's flowControl has no effect: %t",
				policy, p.Findings, both)
		}
	}
}

func TestPoolPolicy_PluginsDecideWhetherPromptsAreRead(t *testing.T) {
	for picker, want := range map[string]model.BodyMode{
		"{strategy: plugins, plugins: {scorers: [{type: queue-scorer}]}}":                        model.BodyNone,
		"{strategy: plugins, plugins: {scorers: [{type: lora-affinity-scorer}]}}":                model.BodyBuffered,
		"{strategy: plugins, prefix: false, plugins: {scorers: [{type: lora-affinity-scorer}]}}": model.BodyNone,
		// The picker may still use an earlier, valid document, which may need bodies.
		"{strategy: plugins, configRef: {name: missing}}": model.BodyBuffered,
	} {
		if p := pool(t, world(t, poolWith(picker)), "default/chat"); p.Picker.Body != want {
			t.Errorf("%s: mode %s, want %s", picker, p.Picker.Body, want)
		}
	}
}

func TestPoolPolicy_InvalidPluginsAreReported(t *testing.T) {
	for name, tt := range map[string]struct{ picker, more, condition, reason, want string }{
		"no ConfigMap": {"configRef: {name: scorers}", "", "ResolvedRefs", "InvalidConfigRef",
			"spec.picker.configRef.name: there is no ConfigMap default/scorers; create it"},
		"two keys": {"configRef: {name: scorers}", configMap(scorers, "a", "b"), "ResolvedRefs", "InvalidConfigRef",
			"spec.picker.configRef.key: ConfigMap default/scorers has 2 keys, and none is named; write the key that " +
				"has the document, one of a, b"},
		"other key": {"configRef: {name: scorers, key: c}", configMap(scorers, "a"), "ResolvedRefs",
			"InvalidConfigRef", `ConfigMap default/scorers has no key "c"`},
		"no document": {"configRef: {name: scorers, kind: EndpointPickerConfig}", "", "ResolvedRefs",
			"InvalidConfigRef", "there is no valid EndpointPickerConfig default/scorers; write it"},
		"unknown plugin": {"configRef: {name: scorers}",
			configMap(strings.ReplaceAll(scorers, "queue-scorer", "dyn-prefill-scorer"), "a"), "ResolvedRefs",
			"InvalidConfigRef",
			`spec.picker.configRef: ConfigMap default/scorers, key a: plugins[1].type: "dyn-prefill-scorer" is not ` +
				`a type of plugins that Penstock has: `},
		"no scorer": {"plugins: {scorers: [{type: external-scorer, parameters: {service: scorer}}]}", "",
			"ResolvedRefs", "InvalidScorerRef",
			"spec.picker.plugins: external-scorer: there is no Service default/scorer; create it, or remove " +
				"the scorer"},
		"no port of a scorer": {"configRef: {name: scorers}",
			configMap(strings.NewReplacer("{type: queue-scorer}",
				"{type: external-scorer, parameters: {service: scorer}}", "pluginRef: queue-scorer",
				"pluginRef: external-scorer").Replace(scorers), "a") +
				"\n---\nkind: Service\nmetadata: {name: scorer}\nspec: {ports: [{port: 1}]}",
			"ResolvedRefs", "InvalidScorerRef",
			"spec.picker.configRef: external-scorer: Service default/scorer has no port 9003"},
		"inline": {"plugins: {scorers: [{type: load-aware-scorer, parameters: {threshold: -3}}]}", "", "Accepted",
			"InvalidPlugins",
			"spec.picker.plugins.scorers[0].parameters.threshold: must be at least 1, is -3; write a number of " +
				"waiting requests"},
	} {
		v := world(t, poolWith("{strategy: plugins, "+tt.picker+"}")+tt.more)
		if p := pool(t, v, "default/chat"); tt.reason != "InvalidScorerRef" && p.Settings.Plugins != nil ||
			p.Settings.Strategy != "plugins" {
			t.Errorf("%s: got %+v, want strategy plugins, without plugins unless InvalidScorerRef", name, p.Settings)
		}
		rep, _ := inference.PolicyReport(v, direct{}, "default/chat")
		found := false
		for _, c := range rep.Conditions {
			if c.Type == tt.condition {
				found = c.Status == report.False && c.Reason == tt.reason && strings.Contains(c.Message, tt.want)
			}
		}
		if !found {
			t.Errorf("%s: conditions %+v, want %s %s: %s", name, rep.Conditions, tt.condition, tt.reason, tt.want)
		}
	}
}

func TestPoolPolicy_SessionScorerHasTheServedEndpointReported(t *testing.T) {
	for picker, want := range map[string]bool{
		"{strategy: plugins, session: {ttlSeconds: 60}, plugins: {scorers: [{type: session-affinity-scorer}]}}": true,
		"{strategy: plugins, plugins: {scorers: [{type: queue-scorer}]}}":                                       false,
	} {
		if p := pool(t, world(t, poolWith(picker)), "default/chat"); p.Picker.Served != want || len(p.Findings) > 0 {
			t.Errorf("%s: %v, %v, want %v and none", picker, p.Picker.Served, p.Findings, want)
		}
	}
}

func TestPoolPolicy_PreciseProducerNeedsKVEvents(t *testing.T) {
	doc := strings.Replace(scorers, "{type: prefix-cache-scorer}",
		"{type: precise-prefix-cache-producer}, {type: prefix-cache-scorer, parameters: "+
			"{prefixMatchInfoProducerName: precise-prefix-cache-producer}}", 1)
	for picker, want := range map[string]int{
		"{strategy: plugins, configRef: {name: scorers}}":               1,
		"{strategy: plugins, configRef: {name: scorers}, kvEvents: {}}": 0,
	} {
		p := pool(t, world(t, poolWith(picker)+configMap(doc, "a")), "default/chat")
		if len(p.Findings) != want || want > 0 && !strings.Contains(p.Findings[0].Fix, "spec.picker.kvEvents") {
			t.Errorf("%s: got findings %+v, want %d, about spec.picker.kvEvents", picker, p.Findings, want)
		}
	}
}

func TestPoolPolicy_StagesThatThePoolCannotHaveAreReported(t *testing.T) {
	const handlers = "[{type: prefix-based-pd-decider, parameters: {nonCachedTokens: 1}}, {type: pd-profile-handler, " +
		"parameters: {primaryPort: 9}}]\nschedulingProfiles: [{name: decode}, {name: prefill}]"
	doc := func(plugins string) string {
		return "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: " + plugins
	}
	for name, tt := range map[string]struct {
		picker, doc string
		want        []string
		body        model.BodyMode
	}{
		"both": {"prefix: false", doc(handlers),
			[]string{"primaryPort 9 of pd-profile-handler is not one of the pool's targetPorts",
				"goes by content-length alone"}, model.BodyNone},
		"prompts": {"prefix: true", doc(strings.Replace(handlers, "primaryPort: 9", "primaryPort: 8000", 1)),
			nil, model.BodyBuffered},
		"Dynamo's nvext": {"prefix: false", doc("[{type: queue-scorer}, {type: dynamo-headers}]"), nil,
			model.BodyBuffered},
	} {
		p := pool(t,
			world(t, poolWith("{strategy: plugins, configRef: {name: scorers}, "+tt.picker+"}")+configMap(tt.doc, "a")),
			"default/chat")
		if len(p.Findings) != len(tt.want) || p.Picker.Body != tt.body {
			t.Errorf("%s: got body %s, findings %+v; want %s, and %d",
				name, p.Picker.Body, p.Findings, tt.body, len(tt.want))
			continue
		}
		for i, want := range tt.want {
			if f := p.Findings[i]; f.Severity != report.Warning || !strings.Contains(f.Problem, want) {
				t.Errorf("%s: %+v, want %s", name, f, want)
			}
		}
	}
}

func TestPoolPolicy_ListenModeNeedsTheFlag(t *testing.T) {
	for picker, want := range map[string]bool{"{kvEvents: {mode: Listen}}": true, "{kvEvents: {}}": false,
		"{}": false} {
		f, found := inference.NotListening(world(t, poolWith(picker)), "default/chat")
		if found != want || want && !strings.Contains(f.Problem+f.Fix, "--picker-kv-events HOST:PORT") {
			t.Errorf("%s: got %+v, want a finding that names the flag: %t", picker, f, want)
		}
	}
}

func TestPoolPolicy_WarningsOfADocumentAreReported(t *testing.T) {
	doc := strings.Replace(scorers, "{type: queue-scorer}",
		"{type: queue-scorer}, {type: random-picker, parameters: {maxNumOfEndpoints: 2}}", 1)
	v := world(t, poolWith("{strategy: plugins, configRef: {name: scorers}}")+configMap(doc, "a"))
	rep, _ := inference.PolicyReport(v, direct{}, "default/chat")
	if len(rep.Findings) != 1 || rep.Findings[0].Severity != report.Warning ||
		!strings.Contains(rep.Findings[0].Problem,
			"ConfigMap default/scorers, key a: plugins[2].parameters.maxNumOfEndpoints: has no effect") {
		t.Errorf("findings: got %+v, want one Warning, of plugins[2]", rep.Findings)
	}
	if p := pool(t, v, "default/chat"); p.Settings.Plugins == nil || p.Settings.Plugins.Picker != "random-picker" {
		t.Errorf("got %+v, want random-picker", p.Settings.Plugins)
	}
}
