package inference_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/gatewayapi"
)

const named = `
kind: Secret
metadata: {name: cert}
---
kind: Gateway
metadata: {name: edge}
---
kind: Service
metadata: {name: epp}
---
kind: InferencePoolImport
metadata: {name: far}
---
kind: InferencePool
metadata: {name: llama, namespace: models}
---
kind: InferencePool
metadata: {name: qwen, namespace: shared}
---
kind: ReferenceGrant
metadata: {name: all, namespace: shared}
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: default}]
  to: [{group: inference.networking.k8s.io, kind: InferencePool}]
---
kind: Invalid
metadata: {name: Secret broken}
`

func TestMissing_SuggestsWhatIsMeant(t *testing.T) {
	v := world(t, named)
	route := report.Ref{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute", Namespace: "default", Name: "r"}
	for _, c := range []struct {
		kind store.Kind
		id   string
		want string
	}{
		{store.Secrets, "default/cret", "Secret default/cret does not exist: did you mean cert?"},
		{store.Gateways, "default/edgee", "did you mean edge?"},
		{store.Services, "default/ep", "did you mean epp?"},
		{store.InferencePoolImports, "default/faar", "did you mean far?"},
		{store.InferencePools, "default/llama", "; did you mean namespace: models? It needs a ReferenceGrant there"},
		{store.InferencePools, "default/qwen", "; did you mean namespace: shared?"},
		{store.Secrets, "default/broken", "Secret default/broken is invalid: see its findings"},
		{store.Services, "other/epp", "Service other/epp does not exist"},
	} {
		ref := store.RefOf(c.kind, c.id)
		if got := gatewayapi.NotExist(v, route, ref) +
			gatewayapi.Elsewhere(v, route, ref); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: %q, want %q", ref, got, c.want)
		}
	}
}

// Each change of an object that a suggestion found recomputes the reference, so there is no
// suggestion among many objects.
func TestMissing_SuggestsNothingAmongMany(t *testing.T) {
	var files strings.Builder
	for i := range 65 {
		fmt.Fprintf(&files, "---\nkind: Service\nmetadata: {name: server-%02d}\n", i)
	}
	v := world(t, named+files.String())
	route := report.Ref{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute", Namespace: "default", Name: "r"}
	if got := gatewayapi.NotExist(v, route, store.RefOf(store.Services, "default/ep")); strings.Contains(got, "mean") {
		t.Error(got)
	}
}

// shared is a store that has Secrets only while a row reads them, as in a cluster with several
// users.
type shared struct{ store.Reader }

func (shared) OnDemand(table string) bool { return table == store.Secrets.Kind() }

func TestMissing_DisclosesNothingOfOtherUsers(t *testing.T) {
	v := shared{world(t, named)}
	route := report.Ref{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute", Namespace: "default", Name: "r"}
	for _, ref := range []report.Ref{store.RefOf(store.InferencePools, "default/llama"),
		store.RefOf(store.Secrets, "default/cret"), store.RefOf(store.InferencePools, "models/lama")} {
		if got := gatewayapi.NotExist(v, route, ref) +
			gatewayapi.Elsewhere(v, route, ref); strings.Contains(got, "mean") {
			t.Error(got)
		}
	}
}
