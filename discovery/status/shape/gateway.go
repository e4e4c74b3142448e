package shape

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// GatewayClass is the shape of a GatewayClass's status.
func GatewayClass() *Shape {
	return &Shape{
		Take: func(obj store.Object) any { return take(&obj.(*gatewayv1.GatewayClass).Status) },
		Make: func(in Input) any {
			old := in.Old.(*gatewayv1.GatewayClassStatus)
			if len(in.Report.Conditions) == 0 || in.later(old.Conditions) {
				return old
			}
			want := slices.Clone(in.Report.Conditions)
			if in.Supported != nil {
				want = report.Set(want, *in.Supported)
			}
			out := &gatewayv1.GatewayClassStatus{Conditions: in.conditions(old.Conditions, want)}
			for _, f := range in.Features {
				out.SupportedFeatures = append(out.SupportedFeatures, gatewayv1.SupportedFeature{Name: f})
			}
			slices.SortFunc(out.SupportedFeatures,
				func(a, b gatewayv1.SupportedFeature) int { return strings.Compare(string(a.Name), string(b.Name)) })
			return out
		},
	}
}

// Gateway is the shape of a Gateway's status.
func Gateway() *Shape {
	return &Shape{
		Take: func(obj store.Object) any { return take(&obj.(*gatewayv1.Gateway).Status) },
		Make: func(in Input) any {
			old := in.Old.(*gatewayv1.GatewayStatus)
			if len(in.Report.Conditions) == 0 || in.later(old.Conditions) {
				return old
			}
			out := *old // keeps the fields that are not set here
			out.Conditions = in.conditions(old.Conditions, in.Report.Conditions)
			out.Addresses = in.Addresses
			if n := in.Report.AttachedListenerSets; n > 0 || old.AttachedListenerSets != nil {
				out.AttachedListenerSets = &n
			}
			out.Listeners = listeners(in, old.Listeners)
			return &out
		},
	}
}

func listeners[T gatewayv1.ListenerStatus | gatewayv1.ListenerEntryStatus](in Input, old []T) (out []T) {
	for _, l := range in.Report.Listeners {
		s := gatewayv1.ListenerStatus{Name: gatewayv1.SectionName(l.Name), AttachedRoutes: l.AttachedRoutes,
			SupportedKinds: routeKinds(l.SupportedKinds)}
		var before []metav1.Condition
		named := func(o T) bool { return gatewayv1.ListenerStatus(o).Name == s.Name }
		if i := slices.IndexFunc(old, named); i >= 0 {
			before = gatewayv1.ListenerStatus(old[i]).Conditions
		}
		s.Conditions = in.conditions(before, l.Conditions)
		out = append(out, T(s))
	}
	return out
}

// routeKinds converts the kinds of routes that a listener supports. It never returns nil, because
// the field is required. An empty list means that the listener supports no kind.
func routeKinds(list []report.Ref) []gatewayv1.RouteGroupKind {
	out := make([]gatewayv1.RouteGroupKind, 0, len(list))
	for _, k := range list {
		group := gatewayv1.Group(k.Group)
		out = append(out, gatewayv1.RouteGroupKind{Group: &group, Kind: gatewayv1.Kind(k.Kind)})
	}
	return out
}

// ListenerSet is the shape of a ListenerSet's status.
func ListenerSet() *Shape {
	return &Shape{
		Take: func(obj store.Object) any { return take(&obj.(*gatewayv1.ListenerSet).Status) },
		Make: func(in Input) any {
			old := in.Old.(*gatewayv1.ListenerSetStatus)
			if len(in.Report.Conditions) == 0 || in.later(old.Conditions) {
				return old
			}
			out := *old
			out.Conditions = in.conditions(old.Conditions, in.Report.Conditions)
			out.Listeners = listeners(in, old.Listeners)
			return &out
		},
	}
}
