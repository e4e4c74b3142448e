package kube_test

import (
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/inferenceapi/llmd"
)

const objective = `{apiVersion: llm-d.ai/v1alpha2, kind: InferenceObjective, metadata: {namespace: default, name: batch}, spec: {poolRef: {name: chat}, priority: -1}}`

// During a migration to llm-d.ai, a cluster has objects of both API groups. If both have an object
// of the same name, the object of llm-d.ai must be used.
func TestInferenceObjective_BothGroupsAreReadAndTodaysWins(t *testing.T) {
	former := strings.NewReplacer(llmd.Group, inferenceapi.Group, "priority: -1", "priority: -7").Replace(objective)
	r := begin(t, func(api *kubetest.Server) {
		api.Install(inferenceapi.Group, "inferenceobjectives", "v1alpha2")
		api.Install(llmd.Group, "inferenceobjectives", "v1alpha2")
		api.Apply(t, "inferenceobjectives", former)
	}).synced()
	priority := func(want int32) {
		t.Helper()
		r.Eventually(func() string {
			o, ok := store.InferenceObjectives.Get(r.Store.View(), "default/batch")
			if !ok || o.Spec.Priority == nil || *o.Spec.Priority != want {
				return "the store lacks the objective with the expected priority"
			}
			return ""
		})
	}
	priority(-7)
	r.API.Apply(t, "inferenceobjectives", objective)
	priority(-1)
	r.API.Delete("inferenceobjectives", kubetest.Parse(t, objective))
	priority(-7)
	r.API.Delete("inferenceobjectives", kubetest.Parse(t, former))
	r.Has(store.InferenceObjectives, "default/batch", false)
}
