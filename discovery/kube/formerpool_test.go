package kube_test

import (
	"strings"
	"testing"

	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"

	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

const formerPool = `{apiVersion: inference.networking.x-k8s.io/v1alpha2, kind: InferencePool, metadata: {namespace: default, name: chat}, spec: {
  selector: {app: chat}, targetPortNumber: 8000, extensionRef: {name: epp, failureMode: FailOpen}}}`

const todaysPool = `{apiVersion: inference.networking.k8s.io/v1, kind: InferencePool, metadata: {namespace: default, name: chat}, spec: {
  selector: {matchLabels: {app: new}}, targetPorts: [{number: 8080}]}}`

func TestInferencePool_FormerGroupIsRead(t *testing.T) {
	r := begin(t, func(api *kubetest.Server) {
		api.Install(inferenceapi.Group, "inferencepools", "v1alpha2")
		api.Apply(t, "inferencepools", formerPool)
	}).synced()
	pool, ok := store.InferencePools.Get(r.Store.View(), "default/chat")
	if !ok {
		t.Fatal("the pool is not in the store")
	}
	ref := pool.Spec.EndpointPickerRef
	if pool.Spec.Selector.MatchLabels["app"] != "chat" || pool.Spec.TargetPorts[0].Number != 8000 || ref == nil ||
		ref.Name != "epp" || ref.Port.Number != 9002 || ref.FailureMode != inferencev1.EndpointPickerFailOpen {
		t.Errorf("spec: got %+v, want app chat at 8000, and picker epp at 9002 that fails open", pool.Spec)
	}
}

// During a migration to v1 and its API group, a cluster has objects of both groups. If both have an
// object of the same name, the object of v1 must be used.
func TestInferencePool_V1WinsOverTheFormerGroup(t *testing.T) {
	r := begin(t, func(api *kubetest.Server) {
		api.Install(inferenceapi.Group, "inferencepools", "v1alpha2")
		api.Install("inference.networking.k8s.io", "inferencepools", "v1")
		api.Apply(t, "inferencepools", formerPool)
		api.Apply(t, "inferencepools", todaysPool)
	}).synced()
	app := func(want string) {
		t.Helper()
		r.Eventually(func() string {
			pool, ok := store.InferencePools.Get(r.Store.View(), "default/chat")
			switch {
			case !ok && want != "":
				return "the pool is missing"
			case ok && string(pool.Spec.Selector.MatchLabels["app"]) != want:
				return "it selects " + string(pool.Spec.Selector.MatchLabels["app"]) + ", want " + want
			}
			return ""
		})
	}
	app("new")
	r.API.Apply(t, "inferencepools", strings.Replace(formerPool, "{app: chat}", "{app: changed}", 1))
	r.API.Delete("inferencepools", kubetest.Parse(t, todaysPool))
	app("changed")
	r.API.Apply(t, "inferencepools", todaysPool)
	app("new")
	r.API.Delete("inferencepools", kubetest.Parse(t, formerPool))
	app("new")
	r.API.Delete("inferencepools", kubetest.Parse(t, todaysPool))
	r.Has(store.InferencePools, "default/chat", false)
}
