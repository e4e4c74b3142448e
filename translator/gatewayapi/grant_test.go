package gatewayapi_test

import (
	"strings"
	"testing"

	"github.com/penstock-project/penstock/translator/gatewayapi"
)

const crossNamespaceRoute = `kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: gw}
spec:
  gatewayClassName: penstock
  listeners:
  - {name: http, port: 8080, protocol: HTTP}
---
kind: HTTPRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: web}
spec:
  parentRefs: [{name: gw}]
  rules:
  - backendRefs: [{name: web, namespace: other, port: 80}]
---
kind: Service
apiVersion: v1
metadata: {name: web, namespace: other}
spec:
  ports: [{port: 80}]
`

const crossNamespaceGrant = `---
kind: ReferenceGrant
apiVersion: gateway.networking.k8s.io/v1beta1
metadata: {name: web, namespace: other}
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: default}]
  to: [{group: "", kind: Service, name: web}]
`

func TestReferenceGrant_WithoutOneNoEndpoints(t *testing.T) {
	decided := func(objects string) *world {
		return decide(view(t, operations(t, objects)), gatewayapi.Config{AnyClass: true})
	}
	without, with := decided(crossNamespaceRoute), decided(crossNamespaceRoute+crossNamespaceGrant)
	if got := without.attached[0].Clusters; len(got) != 0 {
		t.Errorf("without a grant the route needs clusters %v, whose endpoints Envoy would get, want none", got)
	}
	for _, want := range []string{"ResolvedRefs=False RefNotPermitted: no ReferenceGrant in namespace other",
		"PathPrefix / -> 500"} {
		if got := without.String(); !strings.Contains(got, want) {
			t.Errorf("without a grant there is no %q in\n%s", want, got)
		}
	}
	if got := with.attached[0].Clusters; len(got) != 1 || !strings.Contains(got[0].String(), "other/web") {
		t.Errorf("with a grant the route needs clusters %v, want one of other/web", got)
	}
	if got := with.String(); !strings.Contains(got, "ResolvedRefs=True") || strings.Contains(got, "RefNotPermitted") ||
		strings.Contains(got, "-> 500") {
		t.Errorf("with a grant the reference is not resolved, want ResolvedRefs=True and no 500:\n%s", got)
	}
}
