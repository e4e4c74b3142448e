package shape

import (
	"reflect"
	"slices"
	"unique"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// Route is the shape of a route's status. The status has an entry for each parent. Entries with
// another controllerName stay.
func Route[T store.Object](parts func(T) (*gatewayv1.CommonRouteSpec, *gatewayv1.RouteStatus)) *Shape {
	return &Shape{
		Take: func(obj store.Object) any {
			spec, status := parts(obj.(T))
			shareParents(status.Parents, spec.ParentRefs)
			return take(status)
		},
		Make: func(in Input) any {
			old := in.Old.(*gatewayv1.RouteStatus)
			spec, _ := parts(in.Object.(T))
			out := &gatewayv1.RouteStatus{Parents: []gatewayv1.RouteParentStatus{}} // the CRD requires the list
			done := make([]bool, len(in.Report.Parents))
			for _, entry := range old.Parents {
				if string(entry.ControllerName) != in.Controller {
					out.Parents = append(out.Parents, entry)
					continue
				}
				if in.later(entry.Conditions) {
					return old
				}
				ref := normal(entry.ParentRef, in.Object.GetNamespace())
				i := slices.IndexFunc(in.Report.Parents, func(p report.Parent) bool { return p.Ref == ref })
				if i >= 0 && !done[i] {
					done[i] = true
					out.Parents = append(out.Parents, in.routeParent(spec, in.Report.Parents[i], &entry))
				}
			}
			for i, p := range in.Report.Parents {
				if !done[i] {
					out.Parents = append(out.Parents, in.routeParent(spec, p, &gatewayv1.RouteParentStatus{}))
				}
			}
			if len(out.Parents) == 0 && len(old.Parents) == 0 {
				return old
			}
			return out
		},
	}
}

// shareParents replaces equal strings and references in entries by shared ones, to save memory with
// thousands of routes.
func shareParents(entries []gatewayv1.RouteParentStatus, refs []gatewayv1.ParentReference) {
	for i := range entries {
		e := &entries[i]
		e.ControllerName = one(e.ControllerName)
		for j := range e.Conditions {
			c := &e.Conditions[j]
			c.Type, c.Status, c.Reason, c.Message = one(c.Type), one(c.Status), one(c.Reason), one(c.Message)
		}
		if k := slices.IndexFunc(refs, func(ref gatewayv1.ParentReference) bool {
			return reflect.DeepEqual(ref, e.ParentRef)
		}); k >= 0 {
			e.ParentRef = refs[k]
		}
	}
}

func one[S ~string](s S) S { return S(unique.Make(string(s)).Value()) }

func (in Input) routeParent(spec *gatewayv1.CommonRouteSpec, p report.Parent,
	old *gatewayv1.RouteParentStatus) gatewayv1.RouteParentStatus {
	out := gatewayv1.RouteParentStatus{
		ParentRef: denormal(p.Ref), ControllerName: gatewayv1.GatewayController(in.Controller),
		Conditions: in.conditions(old.Conditions, p.Conditions),
	}
	// Use the reference as the user wrote it, because tools compare it with the spec.
	for _, ref := range spec.ParentRefs {
		if normal(ref, in.Object.GetNamespace()) == p.Ref {
			out.ParentRef = ref
			break
		}
	}
	return out
}

func normal(ref gatewayv1.ParentReference, namespace string) report.ParentRef {
	return report.ParentRef{
		Group: string(ptr.Deref(ref.Group, gatewayv1.GroupName)), Kind: string(ptr.Deref(ref.Kind, "Gateway")),
		Namespace: string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(namespace))), Name: string(ref.Name),
		SectionName: string(ptr.Deref(ref.SectionName, "")), Port: ptr.Deref(ref.Port, 0),
	}
}

func denormal(ref report.ParentRef) gatewayv1.ParentReference {
	out := gatewayv1.ParentReference{
		Group: new(gatewayv1.Group(ref.Group)), Kind: new(gatewayv1.Kind(ref.Kind)),
		Name: gatewayv1.ObjectName(ref.Name),
	}
	if ref.Namespace != "" {
		out.Namespace = new(gatewayv1.Namespace(ref.Namespace))
	}
	if ref.SectionName != "" {
		out.SectionName = new(gatewayv1.SectionName(ref.SectionName))
	}
	if ref.Port != 0 {
		out.Port = &ref.Port
	}
	return out
}

// Ancestors is the shape of a policy's status. The status has an entry for each Gateway (GEP-713).
// Entries with another controllerName stay.
func Ancestors[T store.Object](status func(T) *gatewayv1.PolicyStatus) *Shape {
	return &Shape{
		Take: func(obj store.Object) any { return take(status(obj.(T))) },
		Make: func(in Input) any {
			old := in.Old.(*gatewayv1.PolicyStatus)
			out := &gatewayv1.PolicyStatus{Ancestors: []gatewayv1.PolicyAncestorStatus{}} // the CRD requires the list
			mine := map[report.ParentRef]*gatewayv1.PolicyAncestorStatus{}
			for _, entry := range old.Ancestors {
				if string(entry.ControllerName) != in.Controller {
					out.Ancestors = append(out.Ancestors, entry)
					continue
				}
				if in.later(entry.Conditions) {
					return old
				}
				mine[normal(entry.AncestorRef, in.Object.GetNamespace())] = &entry
			}
			for _, p := range in.Report.Parents {
				if len(out.Ancestors) == maxAncestors {
					break
				}
				entry := gatewayv1.PolicyAncestorStatus{
					AncestorRef: denormal(p.Ref), ControllerName: gatewayv1.GatewayController(in.Controller),
				}
				if before := mine[p.Ref]; before != nil {
					entry = *before
				}
				at := in
				if in.AncestorProxies != nil {
					at.Proxies = in.AncestorProxies(p.Ref, entry.Conditions)
				}
				entry.Conditions = at.conditions(entry.Conditions, p.Conditions)
				out.Ancestors = append(out.Ancestors, entry)
			}
			if len(out.Ancestors) == 0 && len(old.Ancestors) == 0 {
				return old
			}
			return out
		},
	}
}

const maxAncestors = 16
