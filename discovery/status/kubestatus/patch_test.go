package kubestatus

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/kube"
)

// A status patch must have only the fields that differ, so that it reverts no other field. It must
// apply only to the version of the object that was compared.
func TestStatusPatch_NamesOnlyWhatDiffersAndItsVersion(t *testing.T) {
	condition := func(typ string) []metav1.Condition {
		return []metav1.Condition{{Type: typ, Status: "True", Reason: "R"}}
	}
	one := int32(1)
	old := &gatewayv1.GatewayStatus{Addresses: []gatewayv1.GatewayStatusAddress{{Value: "192.0.2.1"}},
		Conditions: condition("Accepted"), AttachedListenerSets: &one}
	to := *old
	to.Addresses, to.AttachedListenerSets = nil, nil
	to.Listeners = []gatewayv1.ListenerStatus{{Name: "http", AttachedRoutes: 3}}
	body, err := statusPatch(kube.Live{UID: "u", ResourceVersion: "7", Status: old}, &to)
	if err != nil {
		t.Fatal(err)
	}
	want :=
		`{"metadata":{"resourceVersion":"7","uid":"u"},"status":{"addresses":null,"attachedListenerSets":null,"listeners":[{"attachedRoutes":3,"conditions":null,"name":"http"}]}}`
	if diff := cmp.Diff(want, string(body)); diff != "" {
		t.Error(diff)
	}
}
