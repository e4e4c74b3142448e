package file_test

import (
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/store"
)

const scorers = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
metadata:
  name: scorers
plugins:
- type: load-aware-scorer
  parameters:
    threshold: 10
`

func TestEndpointPickerConfig_InvalidDocumentKeepsLastGood(t *testing.T) {
	f := newFolder(t)
	f.write("scorers.yaml", scorers)
	f.load()
	f.expectFindings()
	f.write("scorers.yaml", strings.Replace(scorers, "threshold: 10", "threshold: 0", 1)+"- type: dyn-prefill-scorer\n")
	for range 2 {
		f.load()
		doc, ok := store.EndpointPickerConfigs.Get(f.store.View(), "default/scorers")
		if !ok || string(doc.Plugins[0].Parameters.Raw) != `{"threshold":10}` {
			t.Errorf("got %+v, want the last good version in use", doc)
		}
		found := strings.Join(f.findings(), "\n")
		for _, want := range []string{
			"error: scorers.yaml:8: EndpointPickerConfig default/scorers plugins[0].parameters.threshold: must be at " +
				"least 1, is 0; write a number of waiting requests",
			`error: scorers.yaml:9: EndpointPickerConfig default/scorers plugins[1].type: "dyn-prefill-scorer" is not a type of plugins that Penstock has: `,
			stays,
		} {
			if !strings.Contains(found, want) {
				t.Errorf("findings:\n%s\nwant %s", found, want)
			}
		}
		f.restart()
	}
}

func TestEndpointPickerConfig_DocumentThatContainsItselfKeepsLastGood(t *testing.T) {
	f := newFolder(t)
	f.write("scorers.yaml", scorers)
	f.load()
	f.write("scorers.yaml",
		strings.Replace(scorers, "plugins:\n- type: load-aware-scorer\n  parameters:\n    threshold: 10\n",
			"plugins: &all\n- type: load-aware-scorer\n  parameters: {threshold: 11, of: *all}\n", 1))
	f.load()
	if found := strings.Join(f.findings(), "\n"); !strings.Contains(found, "error: scorers.yaml:") ||
		!strings.Contains(found, "is nested too deeply, or aliases expand to too many values") {
		t.Errorf(`findings: %s, want a text with "error: scorers.yaml:" and a text with %q`,
			found, "is nested too deeply, or aliases expand to too many values")
	}
	if doc, ok := store.EndpointPickerConfigs.Get(f.store.View(), "default/scorers"); !ok ||
		string(doc.Plugins[0].Parameters.Raw) != `{"threshold":10}` {
		t.Errorf("got %+v, want the last good version in use", doc)
	}
}

func TestEndpointPickerConfig_UnknownFieldIsReportedWithItsLine(t *testing.T) {
	f := newFolder(t)
	f.write("scorers.yaml", scorers+"scorer: x\n")
	f.load()
	if found := strings.Join(f.findings(), "\n"); !strings.Contains(found,
		"error: scorers.yaml:9: EndpointPickerConfig default/scorers scorer: ") {
		t.Errorf("findings: got %s, want one of scorer at line 9", found)
	}
}

func TestPoolPolicy_InvalidPluginsAreReportedWithTheirLine(t *testing.T) {
	const policy = `apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata:
  name: chat
spec:
  targetRef:
    name: chat
  picker:
    strategy: plugins
    plugins:
      scorers:
      - type: load-aware-scorer
        parameters:
          threshold: -1
`
	for text, want := range map[string]string{
		policy: "error: policy.yaml:14: PoolPolicy default/chat spec.picker.plugins.scorers[0].parameters.threshold: " +
			"must be at least 1, is -1; write a number of waiting requests, or remove it for 128",
		strings.Replace(policy, "load-aware-scorer", "dyn-prefill-scorer",
			1): "error: policy.yaml:12: PoolPolicy default/chat spec.picker.plugins.scorers[0].type: must be one of ",
		strings.Replace(policy, "strategy: plugins", "strategy: random",
			1): "plugins and configRef are for strategy plugins: write strategy: plugins, or remove them",
		policy[:strings.Index(policy, "    plugins:\n")]: "strategy plugins needs either plugins or configRef: write " +
			"one of them",
		policy +
			"    configRef: {name: x}\n": "strategy plugins needs either plugins or configRef: write one of them",
		policy[:strings.Index(policy, "    plugins:\n")] +
			"    configRef: {kind: EndpointPickerConfig, name: " +
			"x, key: y}\n": "key is for kind ConfigMap: remove key, or use another kind",
	} {
		f := newFolder(t)
		f.write("policy.yaml", text)
		f.load()
		if found := strings.Join(f.findings(), "\n"); !strings.Contains(found, want) {
			t.Errorf("%s\nfindings: %s\nwant %s", text, found, want)
		}
	}
}
