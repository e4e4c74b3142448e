package endpointpicker

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// registered are the types that llm-d-router 0.10 registers.
const registered = `
active-request-scorer agent-identity always-disagg-multimodal-decider always-disagg-pd-decider anthropic-parser
approx-prefix-cache-producer burst-prefix-cache-producer by-label by-label-selector concurrency-detector context-length-aware
core-metrics-extractor data-parallel-profile-handler dcgm-data-source dcgm-extractor decode-filter
destination-endpoint-served-verifier disagg-headers-handler disagg-profile-handler disaggregatedset-rollout-screener
edf-ordering-policy encode-filter endpoint-attribute-filter endpoint-attribute-scorer endpoint-notification-source
fcfs-ordering-policy file-discovery global-strict-fairness-policy header-based-testing-filter header-label-affinity-scorer
header-profile-handler inflight-load-producer k8s-notification-source kv-cache-utilization-scorer label-selector-filter
latency-scorer latency-slo-admitter load-aware-scorer lora-affinity-scorer max-score-picker metrics-data-source
mm-embeddings-cache-producer mm-embeddings-cache-scorer models-data-extractor models-data-source
multicluster-approx-prefix-cache-producer multicluster-file-discovery multicluster-kv-cache-utilization-scorer
multicluster-metrics-data-source multicluster-metrics-extractor multicluster-prefix-cache-scorer multicluster-queue-scorer
multicluster-session-affinity-filter no-hit-lru-scorer openai-parser p2p-source-producer passthrough-parser pd-profile-handler
precise-prefix-cache-producer precise-prefix-cache-scorer predicted-latency-producer prefill-filter prefill-header-handler
prefix-based-pd-decider prefix-cache-affinity-filter prefix-cache-scorer priority-holdback-policy
priority-then-time-eviction-order-policy probabilistic-admitter program-aware-fairness queue-scorer random-picker
request-attribute-reporter round-robin-fairness-policy running-requests-size-scorer session-affinity-filter
session-affinity-scorer session-id-producer sheddable-eviction-filter single-profile-handler slo-deadline-ordering-policy
slo-headroom-tier-filter soft-reflective-ceiling-policy static-usage-limit-policy token-load-scorer token-producer tokenizer
topology-affinity-filter topology-affinity-scorer topology-extractor utilization-detector utilization-filter vertexai-parser
vllmgrpc-parser vllmhttp-parser weighted-random-picker`

func TestEndpointPickerConfig_EveryTypeOfLLMDHasATreatment(t *testing.T) {
	all := map[string]TypeInfo{}
	for _, info := range Catalog() {
		if all[info.Type].Type != "" {
			t.Errorf("%s is in two tables", info.Type)
		}
		if all[info.Type] = info; info.Treatment != Implemented && info.Note == "" {
			t.Errorf("%s: no note, and it is not implemented", info.Type)
		}
	}
	names := strings.Fields(registered)
	if len(names) != 96 || !slices.IsSorted(names) {
		t.Fatalf("%d types (sorted: %t), want 96, sorted", len(names), slices.IsSorted(names))
	}
	for _, name := range names {
		info, ok := all[name]
		if !ok {
			t.Errorf("no table has %s", name)
			continue
		}
		// With a scorer that is in force, and without a profile that names the type.
		_, problems := Parse(head + "plugins: [{type: queue-scorer}, {type: " + name +
			", name: it}]\nschedulingProfiles: [{name: decode, plugins: [{pluginRef: queue-scorer}]}]")
		for _, p := range problems {
			if p.Fix == "" {
				t.Errorf("%s: no fix for %s", name, p)
			}
			if strings.Contains(p.Problem, "not a type of plugins") != (info.Treatment == Unsupported) {
				t.Errorf("%s is %s and the problem is %s; want unsupported types, and no others, reported as unknown",
					name, info.Treatment, p)
			}
		}
		if warns := info.Treatment == Mapped || info.Treatment == NoEffect; warns && len(problems) == 0 {
			t.Errorf("%s is %s without a Warning", name, info.Treatment)
		}
	}
}

// Documents with the types and parameters of llm-d's guides and KServe's templates. The first line
// is the expected profile.
func TestEndpointPickerConfig_GuidesOfLLMDStartUnchanged(t *testing.T) {
	files, err := filepath.Glob("testdata/guides/*.yaml")
	if err != nil || len(files) < 12 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(text), "\n")
		want := strings.TrimPrefix(first, "# want: ")
		p, problems := Parse(string(text))
		got := summary(p)
		if p != nil { // a mapped type keeps its name
			got = strings.ReplaceAll(got, "context-length-aware ", "")
		}
		if got != want {
			t.Errorf("%s: %s, want %s: %v", file, got, want, problems)
		}
	}
}

func guide(t *testing.T, name string) *Profile {
	t.Helper()
	text, err := os.ReadFile("testdata/guides/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, problems := Parse(string(text))
	if p == nil {
		t.Fatal(problems)
	}
	return p
}

func TestEndpointPickerConfig_MappedTypesHaveAnEffect(t *testing.T) {
	flow := guide(t, "flow-control").Flow
	want := &Flow{TTL: maxTTL, EmptyTTL: maxTTL, Queue: 1<<31 - 1, KV: 1<<31 - 1, InFlight: 10,
		TTLs: []BandTTL{{Negative: true, TTL: 2 * time.Minute}}}
	if diff := cmp.Diff(want, flow); diff != "" {
		t.Error(diff)
	}
	fair := guide(t, "agentic-fairness")
	if got := fmt.Sprint(fair.AgentHeaders, fair.Flow.InFlight,
		fair.Flow.TTLs); got !=
		"[x-my-agent x-claude-code-session-id x-session-affinity session-id session_id] 64 [{-1 false 4m40s}]" {
		t.Error(got)
	}
	if p := guide(t, "latency"); !p.Latency || !p.Pages || !p.Prompts || !p.Admission.Latency {
		t.Errorf("latency guide: got %+v, want Latency, Pages, Prompts and Admission.Latency", p)
	}
	if p := guide(t, "precise-former"); !p.Precise || p.Flow != nil {
		t.Errorf("precise-former guide: got %+v, want Precise without Flow", p)
	}
	if p := guide(t, "models"); p.Source != (PageSource{TLS: true}) {
		t.Errorf("%+v, want %+v", p.Source, PageSource{TLS: true})
	}
	if d := guide(t, "disaggregation-former").Disagg; d == nil || d.Prefill == nil || !d.Prefill.Decider.Always {
		t.Errorf("disaggregation-former guide: got %+v, want a prefill stage that always runs", d)
	}
	by := guide(t, "coordinator").ByHeader
	if by == nil || by.Header != "epp-profile" || by.Default != "decode" || len(by.Profiles) != 3 ||
		!guide(t, "coordinator").Prompts {
		t.Errorf("coordinator guide: got %+v, want header epp-profile, default decode, three profiles, and prompts "+
			"read", by)
	}
	for doc, want := range map[string]string{
		"{type: session-id-producer, parameters: " +
			"{headerName: X-Chat}}": "[x-chat] ",
		"{type: session-id-producer, parameters: " +
			"{cookieName: chat}}": "[] chat",
		"{type: agent-identity}, {type: session-affinity-filter, parameters: {sessionIdConfig: {sources: [{header: " +
			"X-Chat}, {attribute: " +
			"agent-identity}]}}}": "[x-chat x-claude-code-session-id x-session-affinity session-id session_id] ",
	} {
		p, problems := Parse(head + "plugins: [{type: queue-scorer}, " + doc + "]")
		if p == nil || fmt.Sprint(p.SessionHeaders, " ", p.SessionCookie) != want {
			t.Errorf("%s: got %+v with problems %v, want session headers and cookie %q", doc, p, problems, want)
		}
	}
}

// A type of a newer llm-d's router is a Warning, unless requests could go to wrong servers.
func TestEndpointPickerConfig_NewerTypesAreWarningsWhereTheyCanBe(t *testing.T) {
	const profile = "\nschedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer}, {pluginRef: it}]}]"
	for doc, want := range map[string]string{
		"{type: queue-scorer}, {type: " +
			"moon-phase-scorer, name: it}": profile +
			`| plugins[1].type: has no effect: Penstock has no scorer "moon-phase-scorer"`,
		"{type: queue-scorer}, {type: " +
			"moon-phase-picker, name: it}": profile + `| plugins[1].type: has no effect: Penstock has no picker`,
		"{type: queue-scorer}, {type: " +
			"moon-phase-producer}": `| plugins[1].type: has no effect: Penstock has no data producer`,
		"{type: queue-scorer}, {type: " +
			"kv-cache-hint-v2}": "\nschedulingProfiles: [{name: a, plugins: [{pluginRef: " +
			"queue-scorer}]}]" + `| plugins[1].type: has no effect: Penstock has no plugin "kv-cache-hint-v2"`,
		"{type: queue-scorer}, {type: " +
			"moon-detector, name: it}": "\nfeatureGates: [flowControl]\nflowControl: {saturationDetector: " +
			"{pluginRef: it}}" + `| has no effect: Penstock has no policy of flow control`,
		"{type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: it}}, {type: " +
			"moon-producer, name: it}": `| plugins[1].type: has no effect`,
		"{type: token-load-scorer, parameters: " +
			"{moonPhase: 1}}": `| plugins[0].parameters: "moonPhase" has no effect: Penstock has no such parameter of token-load-scorer`,
		"{type: prefix-cache-affinity-filter, name: a}, {type: queue-scorer}, {type: endpoint-attribute-filter, " +
			"parameters: {attribute: x, producer: p}}": `| plugins[2]: has no effect: Penstock reads no custom metrics`,
		"{type: endpoint-attribute-scorer, parameters: " +
			"{attributeKey: x}}": `| the profile has no other scorer, and would choose servers at random; add one, such as queue-scorer`,
	} {
		rest, warning, _ := strings.Cut(want, "| ")
		p, problems := Parse(head + "plugins: [" + doc + "]" + rest)
		if p == nil || !strings.Contains(fmt.Sprint(problems), warning) {
			t.Errorf("%s: %v, want %s", doc, problems, warning)
		}
	}
	for doc, want := range map[string]string{
		"{type: queue-scorer}, {type: " +
			"moon-phase-filter, name: it}": profile +
			`| Penstock has no plugin "moon-phase-filter", and without it requests may go to any server`,
		"{type: queue-scorer}, {type: " +
			"moon-phase, name: it}": profile + `| without it requests may go to any server`,
		"{type: moon-phase-scorer, name: queue-scorer}, {type: " +
			"moon-phase-producer, name: it}": profile +
			`| "moon-phase-scorer" is not a type of plugins that Penstock has: the profile has no other scorer`,
		"{type: queue-scorrer, name: queue-scorer}, {type: " +
			"moon-phase-producer, name: it}": profile +
			`| plugins[0].type: "queue-scorrer" is not a type of plugins that Penstock has; did you mean queue-scorer?`,
		"{type: queue-scorer}, {type: endpoint-attribute-filter, parameters: {attribute: x, " +
			"onMissing: Fail}}": `| onMissing: Fail leaves no server`,
		"{type: queue-scorer}, {type: file-discovery, parameters: " +
			"{path: /e.yaml}}": `| list them as ModelServers`,
		"{type: label-selector-filter, parameters: " +
			"{matchLabel: {a: b}}}": `| unknown field "matchLabel"`,
		"{type: queue-scorer}, {type: " +
			"utilization-filter}": `| plugins[1].parameters.conditions: is empty`,
		"{type: queue-scorer}, {type: header-label-affinity-scorer, parameters: " +
			"{headerName: a b}}": `| parameters.headerName: must be the name of a header`,
		"{type: queue-scorer}, {type: prefix-cache-affinity-filter, parameters: " +
			"{affinityThreshold: 2}}": `| parameters.affinityThreshold: must be from 0 to 1`,
		"{type: queue-scorer}, {type: " +
			"session-id-producer}": `| plugins[1].parameters: must have headerName or cookieName`,
	} {
		rest, problem, _ := strings.Cut(want, "| ")
		p, problems := Parse(head + "plugins: [" + doc + "]" + rest)
		if p != nil || !strings.Contains(fmt.Sprint(problems), problem) {
			t.Errorf("%s: %v, want %s", doc, problems, problem)
		}
	}
}
