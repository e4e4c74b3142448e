package endpointpicker

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// roles is a document with a profile for each role. handler and decider are plugins.
func roles(plugins string) string {
	return head +
		"plugins: [{type: decode-filter}, {type: prefill-filter}, {type: encode-filter}, {type: queue-scorer}, " +
		"{type: prefix-cache-scorer}, " + plugins + `]
schedulingProfiles:
- {name: prefill, plugins: [{pluginRef: prefill-filter}, {pluginRef: prefix-cache-scorer, weight: 2}]}
- {name: decode, plugins: [{pluginRef: decode-filter}, {pluginRef: queue-scorer}]}
- {name: encode, plugins: [{pluginRef: encode-filter}]}
`
}

func TestDisagg_DocumentsOfLLMDWork(t *testing.T) {
	prefix := Decider{NonCachedTokens: 512, PromptTokens: 1024}
	const prefixDecider, media = "{type: prefix-based-pd-decider, parameters: {nonCachedTokens: 512, " +
		"promptTokens: 1024}}", "{type: always-disagg-multimodal-decider}"
	for name, tt := range map[string]struct {
		plugins         string
		prefill, encode *Decider
		warnings        int
		port            uint16
	}{
		"by prefix": {
			plugins: prefixDecider +
				", {type: disagg-profile-handler, parameters: {deciders: {prefill: prefix-based-pd-decider}}}",
			prefill: &prefix, warnings: 1,
		},
		"all stages": {
			plugins: prefixDecider + ", " + media +
				", {type: disagg-profile-handler, parameters: {deciders: {prefill: prefix-based-pd-decider, encode: " +
				"always-disagg-multimodal-decider}}}", prefill: &prefix, encode: &Decider{Multimodal: true},
		},
		"former fields": {
			plugins: prefixDecider +
				", {type: disagg-profile-handler, parameters: {decodeProfile: decode, deciderPluginName: " +
				"prefix-based-pd-decider}}", prefill: &prefix, warnings: 1,
		},
		"always": {
			plugins: "{type: always-disagg-pd-decider, name: a}, {type: disagg-profile-handler, parameters: " +
				"{deciders: {prefill: a}}}", prefill: &Decider{Always: true}, warnings: 1,
		},
		"prefill first": {plugins: "{type: disagg-profile-handler, parameters: {stageOrder: prefill-first}}",
			prefill: &Decider{Always: true}, warnings: 1},
		"no decider": {plugins: "{type: disagg-profile-handler}", warnings: 2},
		"the former handler": {plugins: prefixDecider +
			", {type: prefill-header-handler}, {type: pd-profile-handler, parameters: {primaryPort: 8000}}",
			prefill: &prefix, warnings: 2, port: 8000},
	} {
		p, problems := Parse(roles(tt.plugins))
		if p == nil || p.Disagg == nil || len(problems) != tt.warnings {
			t.Errorf("%s: got %+v with problems %v, want stages and %d warnings", name, p, problems, tt.warnings)
			continue
		}
		decider := func(s *Stage) *Decider {
			if s == nil {
				return nil
			}
			return &s.Decider
		}
		if diff := cmp.Diff([]*Decider{tt.prefill, tt.encode},
			[]*Decider{decider(p.Disagg.Prefill), decider(p.Disagg.Encode)}); diff != "" {
			t.Errorf("%s: deciders of prefill and encode (-want +got):\n%s", name, diff)
		}
		if got := summary(p); got != "decode-filter queue-scorer=1 max-score-picker" ||
			p.Disagg.PrimaryPort != tt.port || !p.Pages {
			t.Errorf("%s: decode: got %s on port %d, want decode-filter, queue-scorer, max-score-picker on port %d",
				name, got, p.Disagg.PrimaryPort, tt.port)
		}
		if tt.prefill != nil &&
			(summary(p.Disagg.Prefill.Profile) != "prefill-filter prefix-cache-scorer=2 max-score-picker" ||
				!p.Prompts) {
			t.Errorf("%s: prefill: got %s, want prefill-filter, prefix-cache-scorer=2, max-score-picker; reads "+
				"prompts: %t, want true", name, summary(p.Disagg.Prefill.Profile), p.Prompts)
		}
	}
	p, problems := Parse(head + "plugins: [{type: queue-scorer}, {type: data-parallel-profile-handler}]")
	if p == nil || p.Disagg.PrimaryPort != 8000 || len(problems) > 0 {
		t.Errorf("data parallel: got %+v with problems %v, want port 8000 and none", p, problems)
	}
}

func TestDisagg_ErrorsNameWhatToWrite(t *testing.T) {
	for doc, want := range map[string]string{
		roles(
			"{type: disagg-profile-handler, parameters: {deciders: " +
				"{prefill: x}}}"): `plugins[5].parameters: "x" is not the name of a decider; name a plugin of type always-disagg-multimodal-decider, always-disagg-pd-decider, prefix-based-pd-decider`,
		roles(
			"{type: disagg-profile-handler, parameters: {deciders: {encode: " +
				"queue-scorer}}}"): `"queue-scorer" is not the name of a decider`,
		roles(
			"{type: disagg-profile-handler, parameters: {decodeProfile: decode, profiles: " +
				"{prefill: p}}}"): "plugins[5].parameters: has fields of two forms; write profiles and deciders alone",
		roles(
			"{type: disagg-profile-handler, parameters: {stageOrder: " +
				"encode-first}}"): `parameters.stageOrder: must be decode-first or prefill-first, is "encode-first"`,
		roles(
			"{type: always-disagg-pd-decider}, {type: disagg-profile-handler, parameters: {stageOrder: " +
				"prefill-first, deciders: " +
				"{prefill: x}}}"): "parameters.deciders.prefill: is not possible with stageOrder prefill-first",
		roles(
			"{type: disagg-profile-handler, parameters: {decider: x}}"): `unknown field "decider"`,
		roles(
			"{type: disagg-profile-handler, parameters: {profiles: " +
				"{decode: d}}}"): `schedulingProfiles: has no profile "d", which disagg-profile-handler needs`,
		roles(
			"{type: prefix-based-pd-decider, parameters: {nonCachedTokens: -1}}, {type: " +
				"disagg-profile-handler}"): "parameters.nonCachedTokens: must be at least 0, is -1",
		roles(
			"{type: disagg-profile-handler}, {type: " +
				"single-profile-handler}"): "plugins[6].type: the document has a profile handler already: " +
			"disagg-profile-handler; keep one of them",
		roles(
			"{type: pd-profile-handler, parameters: {primaryPort: 70000}}, {type: " +
				"prefix-based-pd-decider}"): "parameters.primaryPort: must be a port, is 70000; write one of the " +
			"InferencePool's targetPorts",
		roles(
			"{type: data-parallel-profile-handler}"): "schedulingProfiles[1]: is not supported: " +
			"data-parallel-profile-handler runs one profile; keep one profile, or add disagg-profile-handler",
		strings.Replace(roles("{type: disagg-profile-handler}"), "name: encode", "name: decode",
			1): `schedulingProfiles[2].name: "decode" is the name of another profile too`,
		head +
			"plugins: [{type: queue-scorer}, {type: dynamo-headers, parameters: " +
			"{names: x}}]": `plugins[1].parameters.names: must be dynamo, plain or both, is "x"`,
		head +
			"plugins: [{type: queue-scorer}, {type: dynamo-headers}, {type: dynamo-headers, " +
			"name: second}]": "plugins[2].type: the document has dynamo-headers already; keep one of them",
		head +
			"plugins: [{type: dyn-decode-scorer}]": "use prefix-cache-scorer, and list dynamo-headers",
		head +
			"plugins: [{type: external-scorer, parameters: {service: s}}, {type: always-disagg-pd-decider}, {type: " +
			"disagg-profile-handler, parameters: {deciders: {prefill: " +
			"always-disagg-pd-decider}}}]\nschedulingProfiles: [{name: decode}, {name: prefill, plugins: " +
			"[{pluginRef: external-scorer}]}]": "schedulingProfiles[1]: external-scorer is not supported for " +
			"further servers",
	} {
		p, problems := Parse(doc)
		var text []string
		for _, problem := range problems {
			text = append(text, problem.String())
		}
		if p != nil || !strings.Contains(strings.Join(text, "\n"), want) {
			t.Errorf("%s\n%s\nwant %s", doc, strings.Join(text, "\n"), want)
		}
	}
}

func TestDisagg_RolesAreThoseOfLLMD(t *testing.T) {
	for label, want := range map[string][3]bool{ // decode, prefill, encode
		"":                      {true, false, false},
		"decode":                {true, false, false},
		"prefill":               {false, true, false},
		"encode":                {false, false, true},
		"prefill-decode":        {true, true, false},
		"both":                  {true, true, false},
		"encode-prefill":        {false, true, true},
		"encode-prefill-decode": {true, true, true},
		"other":                 {false, false, false},
	} {
		labels := map[string]string{RoleLabel: label}
		if label == "" {
			labels = nil
		}
		got := [3]bool{HasRole(DecodeFilter, labels), HasRole(PrefillFilter, labels), HasRole(EncodeFilter, labels)}
		if got != want {
			t.Errorf("%q: %v, want %v", label, got, want)
		}
	}
}

func TestDisagg_DeciderComparesWhatTheServerLacks(t *testing.T) {
	for _, tt := range []struct {
		d              Decider
		tokens, cached int
		media, want    bool
	}{
		{Decider{}, 5000, 0, true, false},
		{Decider{NonCachedTokens: 512}, 511, 0, false, false},
		{Decider{NonCachedTokens: 512}, 512, 0, false, true},
		{Decider{NonCachedTokens: 512}, 1000, 489, false, false},
		{Decider{NonCachedTokens: 512, PromptTokens: 1001}, 1000, 0, false, false},
		{Decider{NonCachedTokens: 512, PromptTokens: 1000}, 1000, 0, false, true},
		{Decider{Always: true}, 0, 0, false, true},
		{Decider{Multimodal: true}, 5000, 0, false, false},
		{Decider{Multimodal: true}, 0, 0, true, true},
	} {
		if got := tt.d.Wants(tt.tokens, tt.cached, tt.media); got != tt.want {
			t.Errorf("%+v of %d tokens, %d cached, media %t: wants prefill %t, want %t",
				tt.d, tt.tokens, tt.cached, tt.media, got, tt.want)
		}
	}
}
