package statuses

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// Shape is how the status of one kind is read and made. A status is a pointer to the kind's own type of it.
type Shape struct {
	// Take returns the status of an object that was just read, and takes it out of it unless it says something to us.
	Take func(store.Object) any
	// Make returns the status that an object should have; in.Old if there is nothing to change. It changes neither.
	Make func(in Input) any
}

// Input is what a status is made of.
type Input struct {
	// Report is what is said of the object; one without conditions, parents and listeners says that it is not ours.
	Report report.Report
	// Object is the object that the report is about, without its status.
	Object store.Object
	// Old is the status that it has.
	Old any
	// Generation is the object's generation that the report was made from.
	Generation int64
	// Controller is our controllerName; Now the time, in whole seconds.
	Controller string
	Now        metav1.Time

	// Addresses are where a Gateway can be reached.
	Addresses []gatewayv1.GatewayStatusAddress
	// Pending is why a Gateway or ListenerSet is not programmed although its configuration is right; nil: it is.
	Pending *report.Condition
	// Programmed is the generation that the proxies have, if it is an older one: the condition says so; 0: they have Generation.
	Programmed int64
	// Features and Supported are for GatewayClasses: what we support, and the condition on the installed CRDs' version.
	Features  []gatewayv1.FeatureName
	Supported *report.Condition
}

// longest is how long a condition's message may be (metav1.Condition).
const longest = 32768

// conditions makes a list of conditions of ours in place of old ones. Those of others stay, in front.
func (in Input) conditions(old []metav1.Condition, want []report.Condition) []metav1.Condition {
	out := make([]metav1.Condition, 0, len(want))
	for _, c := range old {
		if foreign(c.Type) {
			out = append(out, c)
		}
	}
	for _, c := range want {
		n := metav1.Condition{
			Type: c.Type, Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
			ObservedGeneration: in.Generation, LastTransitionTime: in.Now,
		}
		if c.Type == programmed && c.Status == report.True && in.Programmed != 0 {
			n.ObservedGeneration = in.Programmed
		}
		if len(n.Message) > longest {
			n.Message = strings.ToValidUTF8(n.Message[:longest], "")
		}
		if before := find(old, c.Type); before != nil && before.Status == n.Status {
			n.LastTransitionTime = before.LastTransitionTime
		}
		out = append(out, n)
	}
	return out
}

// foreign says whether a type of condition is neither of the specification nor ours: "special.io/SomeField".
func foreign(typ string) bool {
	return strings.Contains(typ, "/") && !strings.HasPrefix(typ, v1alpha1.Group+"/")
}

func find(list []metav1.Condition, typ string) *metav1.Condition {
	for i := range list {
		if list[i].Type == typ {
			return &list[i]
		}
	}
	return nil
}

// later says whether somebody has looked at a later generation than we did: "the implementation's copy of the object is
// stale" (Gateway API, GatewayStatus.Conditions).
func (in Input) later(list []metav1.Condition) bool {
	for _, c := range list {
		if !foreign(c.Type) && c.ObservedGeneration > in.Generation {
			return true
		}
	}
	return false
}

// Conditions is the shape of a status that has nothing but conditions.
func Conditions[T store.Object, S any](of func(T) *S, conditions func(*S) *[]metav1.Condition) *Shape {
	return &Shape{
		Take: func(obj store.Object) any { return take(of(obj.(T))) },
		Make: func(in Input) any {
			old := in.Old.(*S)
			if len(in.Report.Conditions) == 0 || in.later(*conditions(old)) {
				return old
			}
			out := *old
			*conditions(&out) = in.conditions(*conditions(old), in.Report.Conditions)
			return &out
		},
	}
}

// take moves a status out.
func take[S any](status *S) *S {
	var zero S
	out := *status
	*status = zero
	return &out
}
