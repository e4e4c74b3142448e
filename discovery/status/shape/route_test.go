package shape

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// If a route has no Gateway any more, status.parents must be an empty list. If the list were
// missing, the API server would reject the status, and the entry of the former Gateway would stay.
func TestRouteStatus_ParentsAreEmptyAfterTheLastGateway(t *testing.T) {
	old := &gatewayv1.RouteStatus{
		Parents: []gatewayv1.RouteParentStatus{
			{ParentRef: gatewayv1.ParentReference{Name: "gone"}, ControllerName: us},
		},
	}
	in := input(old, report.Report{})
	in.Object = &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r"}}
	shape := Route(func(r *gatewayv1.HTTPRoute) (*gatewayv1.CommonRouteSpec, *gatewayv1.RouteStatus) {
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
	})
	if out := shape.Make(in).(*gatewayv1.RouteStatus); out.Parents == nil || len(out.Parents) != 0 {
		t.Errorf("parents: got %#v, want an empty list", out.Parents)
	}
}
