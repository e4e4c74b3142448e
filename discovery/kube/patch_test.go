package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// What a write does not name cannot be lost by it, and it is made for the version that was looked at.
func TestAWriteNamesOnlyWhatDiffersAndTheVersionThatItIsFor(t *testing.T) {
	condition := func(typ string) []metav1.Condition {
		return []metav1.Condition{{Type: typ, Status: "True", Reason: "R"}}
	}
	one := int32(1)
	old := &gatewayv1.GatewayStatus{Addresses: []gatewayv1.GatewayStatusAddress{{Value: "192.0.2.1"}}, Conditions: condition("Accepted"), AttachedListenerSets: &one}
	to := *old
	to.Addresses, to.AttachedListenerSets = nil, nil
	to.Listeners = []gatewayv1.ListenerStatus{{Name: "http", AttachedRoutes: 3}}
	body, err := patch(live{uid: "u", resourceVersion: "7", status: old}, &to)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"metadata":{"resourceVersion":"7","uid":"u"},"status":{"addresses":null,"attachedListenerSets":null,"listeners":[{"attachedRoutes":3,"conditions":null,"name":"http"}]}}`
	if diff := cmp.Diff(want, string(body)); diff != "" {
		t.Error(diff)
	}
}

// client-go's own limit is five requests a second, which a thousand routes would wait for minutes long.
func TestStatusesDoNotWaitForALimitOfOurOwn(t *testing.T) {
	c, err := newClient(&rest.Config{Host: "http://127.0.0.1:1"}, kinds())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds() {
		r, err := c.of(k.gvk().GroupVersion(), k.builtIn)
		if err != nil {
			t.Fatal(err)
		}
		if limit := r.GetRateLimiter(); limit != nil && limit.QPS() > 0 {
			t.Errorf("%s: %v requests a second", k.resource, limit.QPS())
		}
	}
}
