package app

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func document(scorer string) string {
	return `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: scorers},
  data: {plugins.yaml: "{apiVersion: llm-d.ai/v1alpha1, kind: EndpointPickerConfig, plugins: [{type: ` + scorer + `}]}"}}`
}

func TestPoolPolicy_ConfigMapWithPluginsIsReadOnDemand(t *testing.T) {
	t.Parallel()
	api := smallCluster(t)
	api.Install("penstock.dev", "poolpolicies", "v1alpha1")
	api.Apply(t, "configmaps",
		`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: unnamed}, data: {a: b}}`)
	api.Apply(t, "configmaps", document("active-request-scorer"))
	api.Apply(t, "poolpolicies",
		"{apiVersion: penstock.dev/v1alpha1, kind: PoolPolicy, metadata: {namespace: default, name: chat}, spec: "+
			"{targetRef: {name: chat}, picker: {strategy: plugins, configRef: {kind: ConfigMap, name: scorers}}}}")
	p := inCluster(t, api, "one")
	scored := func(by string) {
		t.Helper()
		var e picker.Explanation
		if !poll.Within(poll.Limit, func() bool {
			e = p.picker.Explain("default/chat", nil)
			return e.Strategy == "plugins" && len(e.Verdicts) == 1 && len(e.Verdicts[0].Scores) == 1 &&
				e.Verdicts[0].Scores[0].Plugin == by
		}) {
			t.Fatalf("want one server, scored by %s, got %+v", by, e)
		}
	}
	scored("active-request-scorer")
	api.Apply(t, "configmaps", document("queue-scorer"))
	scored("queue-scorer")
	// While the document is invalid, the last valid one stays in use. The pool still follows its
	// pods, and the status names the problem.
	api.Apply(t, "configmaps", document("dyn-prefill-scorer"))
	poll.Until(t, "the status of the policy", func() bool {
		return strings.Contains(statusText(api), `"dyn-prefill-scorer" is not a type of plugins`)
	})
	api.Apply(t, "pods",
		strings.NewReplacer("chat-1", "chat-2", "10.244.0.1", "10.244.0.2").Replace(clusterObjects[4].text))
	poll.Until(t, "both pods are scored by the last valid plugin", func() bool {
		e := p.picker.Explain("default/chat", nil)
		return len(e.Verdicts) == 2 && len(e.Verdicts[1].Scores) == 1 &&
			e.Verdicts[1].Scores[0].Plugin == "queue-scorer"
	})
	for _, path := range api.Asked("configmaps") {
		if strings.Contains(path, "unnamed") || !strings.Contains(path, "scorers") {
			t.Errorf("got a read of %s, want scorers alone", path)
		}
	}
}

func statusText(api *kubetest.Server) string {
	return fmt.Sprint(api.Get("penstock.dev", "poolpolicies", "default/chat")["status"])
}
