package endpointpicker

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

const head = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"

func summary(p *Profile) string {
	if p == nil {
		return "none"
	}
	var parts []string
	for _, f := range p.Filters {
		parts = append(parts, f.Name)
	}
	for _, s := range p.Scorers {
		parts = append(parts, fmt.Sprintf("%s=%g", s.Name, s.Weight))
	}
	return strings.Join(append(parts, p.Picker), " ")
}

func TestEndpointPickerConfig_DocumentsOfLLMDWork(t *testing.T) {
	for name, tt := range map[string]struct{ doc, want string }{
		"weights": {
			"plugins: [{type: queue-scorer}, {type: prefix-cache-scorer}]\nschedulingProfiles: [{name: default, " +
				"plugins: [{pluginRef: queue-scorer, weight: 2.5}, {pluginRef: " +
				"prefix-cache-scorer}]}]", "queue-scorer=2.5 prefix-cache-scorer=1 max-score-picker",
		},
		"without a profile": {
			"plugins: [{type: random-picker}, {type: queue-scorer}, {type: label-selector-filter}, {type: " +
				"single-profile-handler}]", "label-selector-filter queue-scorer=1 random-picker",
		},
		"names": {
			"plugins: [{name: a, type: load-aware-scorer}, {name: b, type: load-aware-scorer, parameters: " +
				"{threshold: 4}}]\nschedulingProfiles: [{plugins: [{pluginRef: b, " +
				"weight: 3}]}]", "b=3 max-score-picker",
		},
		"the picker need not be named": {
			"plugins: [{type: weighted-random-picker}, {type: queue-scorer}]\nschedulingProfiles: [{plugins: " +
				"[{pluginRef: queue-scorer}]}]", "queue-scorer=1 weighted-random-picker",
		},
		"producers": {
			"plugins: [{type: precise-prefix-cache-producer, name: exact}, {type: inflight-load-producer}, {type: " +
				"prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: exact}}, {type: token-load-scorer, " +
				"parameters: {inFlightLoadProducerName: " +
				"inflight-load-producer}}]", "prefix-cache-scorer=1 token-load-scorer=1 max-score-picker",
		},
		"default producer": {
			"plugins: [{type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: " +
				"approx-prefix-cache-producer}}]", "prefix-cache-scorer=1 max-score-picker",
		},
	} {
		for _, group := range []string{Group, FormerGroup} {
			p, problems := Parse("apiVersion: " + group + "/v1alpha1\nkind: EndpointPickerConfig\n" + tt.doc)
			if got := summary(p); got != tt.want || len(problems) > 0 {
				t.Errorf("%s: %s, want %s; %v", name, got, tt.want, problems)
			}
		}
	}
}

func TestEndpointPickerConfig_ProfileStatesWhatItReads(t *testing.T) {
	for doc, want := range map[string]Profile{
		"plugins: [{type: queue-scorer}]":          {Pages: true},
		"plugins: [{type: active-request-scorer}]": {},
		"plugins: [{type: lora-affinity-scorer}]":  {Pages: true, Prompts: true},
		"plugins: [{type: prefix-cache-scorer}]":   {Prompts: true},
		"plugins: [{type: precise-prefix-cache-producer, name: x}, {type: prefix-cache-scorer, parameters: " +
			"{prefixMatchInfoProducerName: x}}]": {Prompts: true, Precise: true},
		"plugins: [{type: queue-scorer}, {type: active-request-scorer}]\nschedulingProfiles: [{plugins: [{pluginRef: " +
			"active-request-scorer}]}]": {},
	} {
		p, problems := Parse(head + doc)
		if p == nil {
			t.Fatal(problems)
		}
		if p.Pages != want.Pages || p.Prompts != want.Prompts || p.Precise != want.Precise {
			t.Errorf("%s: %+v, want Pages %v, Prompts %v, Precise %v", doc, p, want.Pages, want.Prompts, want.Precise)
		}
	}
}

func TestEndpointPickerConfig_ParametersHaveDefaults(t *testing.T) {
	p, problems := Parse(
		head +
			"plugins: [{type: active-request-scorer, parameters: {idleThreshold: 3}}, {type: token-load-scorer}, " +
			"{type: load-aware-scorer, parameters: {}}, {type: prefix-cache-scorer}]")
	if p == nil {
		t.Fatal(problems)
	}
	want := []any{&ActiveRequest{IdleThreshold: 3, MaxBusyScore: 1}, &TokenLoad{QueueThresholdTokens: 4194304},
		&LoadAware{Threshold: 128}, &PrefixCache{MatchLengthScaleTokens: 8192}}
	for i, s := range p.Scorers {
		if diff := cmp.Diff(want[i], s.Parameters); diff != "" {
			t.Error(s.Name, diff)
		}
	}
}

var manyPlugins = strings.Repeat("{type: queue-scorer, name: x},", 65)

// unsupported are documents without their first lines, each with a part of its problem.
var unsupported = map[string]string{
	"plugins: [{type: disagg-profile-handler}]": `schedulingProfiles: has no profile "decode", which disagg-profile-handler needs; add one with the filter decode-filter`,
	"plugins: [{type: queue}]":                  "use one of active-request-scorer, agent-identity, ",
	"plugins: [{}]":                             `plugins[0].type: "" is not a type`,
	"plugins: []":                               "plugins: is empty",
	"plugins: [" + manyPlugins +
		"]": "plugins: has 65 plugins; at most 64",
	"plugins: [{type: queue-scorer}, {type: " +
		"queue-scorer}]": `plugins[1].name: "queue-scorer" is the name of another plugin too`,
	"plugins: [{type: queue-scorer, " +
		"parameters: {a: 1}}]": "plugins[0].parameters: queue-scorer has no parameters",
	"plugins: [{type: load-aware-scorer, parameters: " +
		"{treshold: 1}}]": `plugins[0].parameters: is not valid for load-aware-scorer: unknown field "treshold"`,
	"plugins: [{type: load-aware-scorer, parameters: " +
		"{threshold: 0}}]": "plugins[0].parameters.threshold: must be at least 1, is 0",
	"plugins: [{type: load-aware-scorer, parameters: " +
		"{threshold: many}}]": "plugins[0].parameters: is not valid for load-aware-scorer: ",
	"plugins: [{type: active-request-scorer, parameters: " +
		"{maxBusyScore: 2}}]": "parameters.maxBusyScore: must be from 0 to 1, is 2",
	"plugins: [{type: active-request-scorer, parameters: " +
		"{idleThreshold: -1}}]": "parameters.idleThreshold: must be at least 0",
	"plugins: [{type: token-load-scorer, parameters: " +
		"{queueThresholdTokens: -1}}]": "parameters.queueThresholdTokens: must be at least 1",
	"plugins: [{type: prefix-cache-scorer, parameters: " +
		"{matchLengthWeight: 1.5}}]": "parameters.matchLengthWeight: must be from 0 to 1",
	"plugins: [{type: prefix-cache-scorer, parameters: {matchLengthWeight: 1, " +
		"matchLengthScaleTokens: 0}}]": "parameters.matchLengthScaleTokens: must be at least 1",
	"plugins: [{type: prefix-cache-scorer, parameters: " +
		"{prefixMatchInfoProducerName: x}}]": `parameters.prefixMatchInfoProducerName: "x" is not the name of such a plugin; name a plugin of type approx-prefix-cache-producer or precise`,
	"plugins: [{type: label-selector-filter, parameters: {matchExpressions: [{key: a, " +
		"operator: Near}]}}]": "plugins[0].parameters: is not a label selector",
	"plugins: [{type: queue-scorer}]\nschedulingProfiles: [{plugins: " +
		"[{pluginRef: q}]}]": `schedulingProfiles[0].plugins[0].pluginRef: there is no plugin "q"; write the name of one of the plugins: queue-scorer`,
	"plugins: [{type: queue-scorer}]\nschedulingProfiles: [{plugins: [{pluginRef: queue-scorer, " +
		"weight: -1}]}]": "schedulingProfiles[0].plugins[0].weight: must be at least 0",
	"plugins: [{type: queue-scorer}]\nschedulingProfiles: [{name: a}, " +
		"{name: b}]": "schedulingProfiles[1]: is not supported",
	"plugins: [{type: max-score-picker}, {type: " +
		"random-picker}]": "plugins[1]: the profile has a picker already: max-score-picker",
	"plugins: [{type: queue-scorer}]\nfeatureGates: " +
		"[flowControl=yes]": `featureGates[0]: "yes" is neither true nor false`,
	flowing +
		"{saturationDetector: {pluginRef: " +
		"queue-scorer}}": `flowControl.saturationDetector.pluginRef: "queue-scorer" is not the name of such a plugin; name a plugin of type utilization-detector or concurrency-detector`,
	flowing +
		"{defaultPriorityBand: " +
		"{orderingPolicyRef: edf}}": `flowControl.defaultPriorityBand.orderingPolicyRef: "edf" is not the name of such a plugin; name a plugin of type fcfs-ordering-policy or slo-deadline-ordering-policy`,
	flowing +
		"{defaultPriorityBand: " +
		"{maxRequests: -1}}": "flowControl.defaultPriorityBand.maxRequests: must be at least 0, is -1",
	"plugins: [{type: utilization-detector, parameters: " +
		"{queueDepthThreshold: 0}}]": "plugins[0].parameters.queueDepthThreshold: must be above 0, is 0",
	"plugins: [{type: static-usage-limit-policy, parameters: " +
		"{threshold: 2}}]": "plugins[0].parameters.threshold: must be above 0 and at most 1, is 2",
	"plugins: [{type: external-scorer}]": `plugins[0].parameters.service: must be the name of a Service, is ""`,
	"plugins: [{type: external-scorer, parameters: " +
		"{service: a.b}}]": `plugins[0].parameters.service: must be the name of a Service, is "a.b"`,
	"plugins: [{type: external-scorer, parameters: {service: a, " +
		"port: 0}}]": "plugins[0].parameters.port: must be from 1 to 65535, is 0",
	"plugins: [{type: session-affinity-scorer, parameters: " +
		"{strategy: sticky}}]": `plugins[0].parameters.strategy: must be encoded_endpoint_header or session_id, is "sticky"`,
	"plugins: [{type: session-affinity-scorer, parameters: {encodedEndpointHeaderConfig: {header: " +
		"x-other}}}]": `parameters.encodedEndpointHeaderConfig.header: "x-other" is not supported`,
	"plugins: [{type: session-affinity-scorer, parameters: {sessionIdConfig: {sources: [{attribute: " +
		"agent}]}}}]": "parameters.sessionIdConfig.sources[0]: is not supported",
	"plugins: [{type: queue-scorer}]\nother: 1": `is not an EndpointPickerConfig: unknown field "other"`,
	"plugins: [{type: queue-scorer, " +
		"parameter: {}}]": `is not an EndpointPickerConfig: unknown field "plugins[0].parameter"; `,
	"plugins: [{type: queue-scorer}]\nflowControl: " +
		"{defaultPriorityBand: {max: 1}}": `unknown field "flowControl.defaultPriorityBand.max"`,
	"plugins: [{type: queue-scorer}]\n---\nplugins: [{type: " +
		"random-picker}]": "has a second YAML document, at line 5; remove it",
	"plugins: [{type: queue-scorer}]\n---\n}": "has a second YAML document, at line ",
	"plugins: &all [{type: queue-scorer, parameters: " +
		"{of: *all}}]": "is not an EndpointPickerConfig: yaml: anchor 'all' value contains itself",
	"plugins: [{type: queue-scorer, parameters: {a: &a [x, x, x, x, x, x, x, x, x], b: &b [*a, *a, *a, *a, *a, " +
		"*a, *a, *a, *a], c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b], d: &d [*c, *c, *c, *c, *c, *c, *c, *c, " +
		"*c], e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d], f: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e], g: [*f, " +
		"*f, *f, *f, *f, *f, *f, " +
		"*f, *f]}}]": "is not an EndpointPickerConfig: yaml: document contains excessive aliasing",
	"plugins: [": "is not an EndpointPickerConfig: ",
	"plugins: [{type: queue-scorer}] #" + strings.Repeat("x", 300_000): "bytes; at most 262144 are allowed",
}

func TestEndpointPickerConfig_ErrorsNameWhatIsNotSupported(t *testing.T) {
	for doc, want := range unsupported {
		p, problems := Parse(head + doc)
		if p != nil || !strings.Contains(fmt.Sprint(problems), want) {
			t.Errorf("%.120s: %.300v, want %s", doc, problems, want)
		}
		for _, problem := range problems {
			if problem.Fix == "" {
				t.Errorf("%.120s: %s has no fix", doc, problem)
			}
		}
	}
	for doc, want := range map[string]string{
		"apiVersion: v1\nkind: EndpointPickerConfig\nplugins: [{type: " +
			"queue-scorer}]": `apiVersion: must be llm-d.ai/v1alpha1, is "v1"`,
		"apiVersion: llm-d.ai/v1alpha1\nkind: Config\nplugins: [{type: " +
			"queue-scorer}]": `kind: must be EndpointPickerConfig, is "Config"`,
		"": "kind: must be",
	} {
		if p, problems := Parse(doc); p != nil || !strings.Contains(fmt.Sprint(problems), want) {
			t.Errorf("%s: %v, want %s", doc, problems, want)
		}
	}
}

func TestEndpointPickerConfig_WhatHasNoEffectIsAWarning(t *testing.T) {
	for doc, want := range map[string]string{
		"plugins: [{type: max-score-picker, parameters: " +
			"{maxNumOfEndpoints: 3}}]": "plugins[0].parameters.maxNumOfEndpoints: has no effect: spec.picker.fallbacks",
		"plugins: [{type: approx-prefix-cache-producer, parameters: {blockSizeTokens: 16, " +
			"autoTune: false}}]": "plugins[0].parameters.autoTune: has no effect",
		"plugins: [{type: precise-prefix-cache-producer, parameters: {tokenProcessorConfig: " +
			"{blockSize: 5}}}]": "tokenProcessorConfig: has no effect",
		"plugins: [{type: session-affinity-scorer, parameters: {strategy: session_id, sessionIdConfig: {sources: " +
			"[{header: x-session-id}], " +
			"evictionTtlSeconds: 60}}}]": "plugins[0].parameters.sessionIdConfig.evictionTtlSeconds: has no effect: " +
			"spec.picker.session.ttlSeconds",
		"plugins: [{type: active-request-scorer, parameters: " +
			"{requestTimeout: 2m}}]": "requestTimeout: has no effect",
		"plugins: [{type: single-profile-handler}]\nschedulingProfiles: [{plugins: [{pluginRef: " +
			"single-profile-handler}]}]": "plugins[0].pluginRef: has no effect: a profile handler is not part " +
			"of a profile",
	} {
		p, problems := Parse(head + doc)
		if p == nil || !strings.Contains(fmt.Sprint(problems), want) {
			t.Errorf("%s: %v, want %s", doc, problems, want)
		}
	}
}

func TestPoolPolicy_InlinePluginsResolveAsDocumentsDo(t *testing.T) {
	raw := func(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }
	p, problems := Inline(&v1alpha1.PluginsSpec{
		Filters: []v1alpha1.FilterPlugin{{Type: LabelSelectorFilter, Parameters: raw(`{"matchLabels":{"a":"b"}}`)}},
		Scorers: []v1alpha1.ScorerPlugin{
			{Type: LoadAwareScorer, Parameters: raw(`{"threshold":1}`), Weight: new(int32(7))}, {Type: LoadAwareScorer},
		},
		Choice: "power-of-two",
	})
	if got := summary(
		p); got != "label-selector-filter load-aware-scorer=7 load-aware-scorer-2=1 power-of-two-picker" ||
		len(problems) > 0 {
		t.Errorf("got %s with problems %v, want two load-aware scorers, power-of-two and none", got, problems)
	}
	if p, problems = Inline(&v1alpha1.PluginsSpec{}); summary(p) != "max-score-picker" || len(problems) > 0 {
		t.Errorf(`%s %v, want "max-score-picker" and none`, summary(p), problems)
	}
	p, problems = Inline(
		&v1alpha1.PluginsSpec{
			Scorers: []v1alpha1.ScorerPlugin{{Type: QueueScorer},
				{Type: LoadAwareScorer, Parameters: raw(`{"threshold":-1}`)}, {Type: "x"}},
		})
	if got := fmt.Sprint(problems); p != nil || !strings.Contains(got,
		"scorers[1].parameters.threshold: must be at least 1") ||
		!strings.Contains(got, `scorers[2].type: "x" is not`) {
		t.Errorf("got problems %v, want one of scorer 1 (threshold) and one of scorer 2 (type)", problems)
	}
}

// An API server rejects types that are not in the CRD.
func TestPoolPolicy_CRDListsTheTypesOfPlugins(t *testing.T) {
	crd, err := os.ReadFile("../crds/penstock.dev_poolpolicies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Types(Filter, Scorer) {
		if !strings.Contains(string(crd), "- "+name+"\n") {
			t.Errorf("the enum of the CRD lacks %s", name)
		}
	}
	for _, picker := range Types(Picker) {
		found := false
		for name, kind := range choices {
			found = found || kind == picker && strings.Contains(string(crd), "- "+name+"\n")
		}
		if !found {
			t.Errorf("no choice of the CRD is %s", picker)
		}
	}
}

func FuzzEndpointPickerConfig_ProfilesAreComplete(f *testing.F) {
	f.Add(
		"plugins: [{type: queue-scorer, parameters: {}}]\nschedulingProfiles: [{plugins: [{pluginRef: queue-scorer, " +
			"weight: 2}]}]")
	f.Add(
		"plugins: [{type: label-selector-filter, parameters: {matchLabels: {a: b}}}, {type: prefix-cache-scorer, " +
			"parameters: {prefixMatchInfoProducerName: x}}]")
	f.Add("plugins: &a [*a]")
	f.Add(
		strings.TrimPrefix(
			roles(
				"{type: always-disagg-multimodal-decider}, {type: dynamo-headers}, {type: disagg-profile-handler, "+
					"parameters: {stageOrder: prefill-first, deciders: {encode: "+
					"always-disagg-multimodal-decider}}}"), head))
	f.Add(
		"plugins: [{type: pd-profile-handler, parameters: {primaryPort: 1}}, {type: " +
			"prefix-based-pd-decider}]\nschedulingProfiles: [{name: decode}, {name: prefill}]")
	f.Add("{}")
	f.Fuzz(func(t *testing.T, doc string) {
		p, problems := Parse(head + doc)
		if (p == nil) != Invalid(problems) {
			t.Fatalf("profile %v with problems %v, want a profile if and only if none is an error", p, problems)
		}
		if p == nil {
			return
		}
		profiles := []*Profile{p}
		if d := p.Disagg; d != nil {
			for _, s := range []*Stage{d.Prefill, d.Encode} {
				if s != nil {
					profiles = append(profiles, s.Profile)
				}
			}
		}
		for _, p := range profiles {
			for _, in := range append(p.Filters, p.Scorers...) {
				if k := kinds[in.Type]; k.parameters != nil && in.Parameters == nil || in.Weight < 0 {
					t.Fatalf("got %+v, want parameters where its type has some, and a weight of 0 or more", in)
				}
			}
			if kinds[p.Picker].role != Picker || p.MaxEndpoints < 1 {
				t.Fatalf("got picker %q of %d endpoints, want a type of pickers and at least 1",
					p.Picker, p.MaxEndpoints)
			}
		}
		if _, err := json.Marshal(p); err != nil {
			t.Fatal(err)
		}
	})
}

// flowing begins a document with flow control.
const flowing = "plugins: [{type: queue-scorer}]\nfeatureGates: [flowControl]\nflowControl: "

func TestEndpointPickerConfig_FlowControlIsRead(t *testing.T) {
	for text, c := range map[string]struct {
		want     *Flow
		warnings string
	}{
		"plugins: [{type: queue-scorer}]\nfeatureGates: [flowControl]":       {want: &Flow{}},
		"plugins: [{type: queue-scorer}]\nfeatureGates: [flowControl=false]": {},
		"plugins: [{type: queue-scorer}]\nflowControl: {defaultRequestTTL: 5s}": {
			warnings: "flowControl: has no effect: flow control is off; add flowControl to featureGates, or remove it",
		},
		"plugins: [{type: queue-scorer}]\nsaturationDetector: {pluginRef: utilization-detector}": {
			warnings: "saturationDetector: has no effect: flow control is off; add flowControl to featureGates, or " +
				"set spec.picker.full of the PoolPolicy",
		},
		flowing +
			"{defaultRequestTTL: 30s, defaultPriorityBand: {maxRequests: 2k, maxBytes: 1Gi, orderingPolicyRef: " +
			"slo-deadline-ordering-policy, fairnessPolicyRef: round-robin-fairness-policy}}": {
			want: &Flow{TTL: 30 * time.Second, EmptyTTL: 30 * time.Second, Requests: 2000, Bytes: 1 << 30,
				Deadlines: true}},
		flowing + "{noEndpointRequestTTL: 200s, maxRequests: 7, priorityBands: [{priority: 1, maxRequests: 3}]}": {
			want: &Flow{EmptyTTL: 200 * time.Second},
			warnings: "flowControl.maxRequests: has no effect: each priority has a limit of its own; set it in " +
				"defaultPriorityBand\nflowControl.priorityBands[0]: has no effect: all priorities have the limits " +
				"and the order of defaultPriorityBand; set these in defaultPriorityBand"},
		"plugins: [{type: utilization-detector, name: d, parameters: {queueDepthThreshold: 10}}, {type: " +
			"static-usage-limit-policy, parameters: {threshold: 0.5}}, {type: queue-scorer}]\nfeatureGates: " +
			"[flowControl=true]\nflowControl: {saturationDetector: {pluginRef: d}, usageLimitPolicyPluginRef: " +
			"static-usage-limit-policy}": {
			want: &Flow{Queue: 5, KV: 0.4}},
	} {
		p, problems := Parse(head + text)
		var warnings []string
		for _, w := range problems {
			warnings = append(warnings, w.String())
		}
		if p == nil || Invalid(problems) || strings.Join(warnings, "\n") != c.warnings {
			t.Errorf("%s:\n%s\nwant\n%s", text, strings.Join(warnings, "\n"), c.warnings)
			continue
		}
		if diff := cmp.Diff(c.want, p.Flow); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", text, diff)
		}
	}
}

func TestEndpointPickerConfig_DefaultOfLLMDsChartIsValid(t *testing.T) {
	const doc = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: queue-scorer\n- type: " +
		"passthrough-parser\n" +
		"- {type: metrics-data-source, parameters: {scheme: %s, path: %s, insecureSkipVerify: true}}\n- type: " +
		"core-metrics-extractor\n" +
		"schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer, weight: 2}]}]\nrequestHandler: " +
		"{parsers: [{pluginRef: passthrough-parser}]}\n"
	p, problems := Parse(fmt.Sprintf(doc, "http", "/metrics"))
	if p == nil || len(p.Scorers) != 1 || Invalid(problems) || len(problems) != 3 {
		t.Errorf("http: got %+v with problems %v, want one scorer and three warnings", p, problems)
	}
	p, problems = Parse(fmt.Sprintf(doc, "https", "/stats"))
	if p == nil || p.Source != (PageSource{Path: "/stats", TLS: true}) {
		t.Errorf("https: got %+v with problems %v, want metrics from https at /stats", p, problems)
	}
	for _, tt := range []struct{ doc, want string }{
		{fmt.Sprintf(doc, "ftp", "/metrics"), "parameters.scheme: must be http or https"},
		{fmt.Sprintf(doc, "http", "stats"), "parameters.path: must begin with /"},
		{strings.Replace(fmt.Sprintf(doc, "https", "/metrics"), "true}", "false}", 1), "BackendTLSPolicy"},
	} {
		if _, problems := Parse(tt.doc); !Invalid(problems) || !strings.Contains(fmt.Sprint(problems), tt.want) {
			t.Errorf("%s: %v", tt.want, problems)
		}
	}
}

// The document of llm-d's guide for prefix caches with KV events.
func TestEndpointPickerConfig_TokenProducerIsAWarning(t *testing.T) {
	p, problems := Parse(head + `plugins:
- {type: token-producer, parameters: {modelName: llama, vllm: {url: "http://localhost:8000"}}}
- type: precise-prefix-cache-producer
- {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: precise-prefix-cache-producer}}
---
# the end
`)
	if p == nil || !p.Precise || len(problems) != 1 || !problems[0].Warning ||
		!strings.Contains(problems[0].String(), "plugins[0]: has no effect: Penstock counts tokens by itself") {
		t.Errorf("got %+v with problems %v, want Precise and one warning, about plugins[0]", p, problems)
	}
}
