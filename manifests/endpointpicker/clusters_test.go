package endpointpicker

import (
	"fmt"
	"strings"
	"testing"
)

// The example in llm-d's documentation of its plugins for clusters.
const ofLLMD = `apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins:
  - type: multicluster-file-discovery
    name: discovery
    parameters: {path: /etc/epp/clusters.yaml}
  - type: multicluster-metrics-data-source
    name: metrics-source
    parameters: {scheme: https, caCertPath: /etc/epp/tls/ca.crt}
  - type: multicluster-metrics-extractor
    name: metrics-extractor
  - type: multicluster-session-affinity-filter
    name: session-affinity
  - type: multicluster-kv-cache-utilization-scorer
    name: kv-cache
  - type: multicluster-queue-scorer
    name: queue
  - type: max-score-picker
  - type: single-profile-handler
dataLayer:
  discovery: {endpoints: {pluginRef: discovery}}
  sources: [{pluginRef: metrics-source, extractors: [{pluginRef: metrics-extractor}]}]
`

func TestEndpointPickerConfig_DocumentsForClustersAreAccepted(t *testing.T) {
	p, problems := Parse(ofLLMD)
	if p == nil || p.Clusters == nil || !p.Clusters.Session || p.Clusters.Prefix || len(p.Scorers)+len(p.Filters) > 0 ||
		Invalid(problems) {
		t.Fatalf("got %+v with problems %v, want clusters by session alone and no error", p, problems)
	}
	for _, want := range []string{
		"plugins[0]: has no effect: the InferencePoolImport lists the clusters",
		"plugins[1]: has no effect: Penstock reads the load that clusters report",
		"plugins[2]: has no effect: Penstock reads the load", "dataLayer: has no effect: Penstock reads the load",
	} {
		if got := fmt.Sprint(problems); !strings.Contains(got, want) {
			t.Errorf("%s; want %s", got, want)
		}
	}
	for doc, want := range map[string]struct {
		prefix, session bool
		warnings        string
	}{
		"plugins: [{type: multicluster-queue-scorer}]": {},
		"plugins: [{type: multicluster-prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: p}}, {type: " +
			"multicluster-approx-prefix-cache-producer, name: p}]": {prefix: true},
		"plugins: [{type: multicluster-prefix-cache-scorer, parameters: " +
			"{matchLengthWeight: 0.5}}]": {prefix: true, warnings: "plugins[0].parameters.matchLengthWeight: " +
			"has no effect"},
		"plugins: [{type: multicluster-prefix-cache-scorer}, {type: " +
			"multicluster-session-affinity-filter}]": {session: true, warnings: "multicluster-prefix-cache-scorer " +
			"has no effect beside multicluster-session-affinity-filter"},
		"plugins: [{type: multicluster-queue-scorer, name: q}]\nschedulingProfiles: [{plugins: [{pluginRef: q, " +
			"weight: 2}]}]": {warnings: "schedulingProfiles[0].plugins[0].weight: has no effect"},
		"plugins: [{type: multicluster-queue-scorer}, {type: " +
			"random-picker}]": {warnings: "plugins: random-picker has no effect"},
		"plugins: [{type: multicluster-queue-scorer}]\nfeatureGates: " +
			"[flowControl]": {warnings: "flowControl: has no effect: requests wait in the cluster"},
	} {
		p, problems := Parse(head + doc)
		got := fmt.Sprint(problems)
		if p == nil || p.Clusters == nil || p.Clusters.Prefix != want.prefix || p.Clusters.Session != want.session ||
			p.Flow != nil || (len(problems) > 0) != (want.warnings != "") || !strings.Contains(got, want.warnings) {
			t.Errorf("%s: got %+v with problems %s, want %+v", doc, p, got, want)
		}
	}
	for doc, want := range map[string]string{
		"plugins: [{type: multicluster-queue-scorer}, {type: " +
			"queue-scorer}]": "plugins[1]: queue-scorer chooses among model servers, and the document's other " +
			"plugins choose among clusters; remove it, or use its multicluster- variant",
		"plugins: [{type: multicluster-queue-scorer, parameters: " +
			"{threshold: 3}}]": "plugins[0].parameters: multicluster-queue-scorer has no parameters",
		"plugins: [{type: multicluster-session-affinity-filter, parameters: " +
			"{strategy: random}}]": "plugins[0].parameters.strategy: must be encoded_endpoint_header or session_id",
		"plugins: [{type: multicluster-scorer}]": `"multicluster-scorer" is not a type of plugins`,
	} {
		if p, problems := Parse(head + doc); p != nil || !strings.Contains(fmt.Sprint(problems), want) {
			t.Errorf("%s: got %v with problems %v, want none and %q", doc, p, problems, want)
		}
	}
}
