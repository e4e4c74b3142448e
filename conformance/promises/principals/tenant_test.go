package principals

import (
	"reflect"
	"testing"

	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
)

// tenant is an author in a namespace with Kubernetes' role edit, for what Penstock reads there.
var tenant = principal{"tenant", func(t testing.TB) []field {
	return fieldsOf(t, tenantKinds, walker{classes: tenantClasses, unread: nil})
}}

var tenantKinds = []kind{
	{name: "InferencePool", typ: reflect.TypeFor[inferencev1.InferencePool](), group: inferencev1.GroupName, plural: "inferencepools"},
}

var tenantClasses = map[string]class{
	"name":        name,
	"failureMode": choice,
	"appProtocol": choice,
}

func TestPrincipals_TenantChangesNobodyElsesRequests(t *testing.T) {
	r := begin(t, start(t, nil), tenant)
	r.apply("tenant", tenantKinds)
	r.end()
}
