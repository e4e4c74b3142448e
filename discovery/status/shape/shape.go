package shape

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// Shape has functions that read and make the status of one kind. A status is a pointer to the
// kind's status type.
type Shape struct {
	// Take returns the status of an object that was just read. It clears the status in the object,
	// except for the fields that translation reads.
	Take func(store.Object) any
	// Make returns the new status of an object, or in.Old if nothing changes. It modifies neither
	// the object nor in.Old.
	Make func(in Input) any
}

// Input is the input of Make.
type Input struct {
	// Report is the board's report about the object. If it has no conditions, parents and
	// listeners, the object does not belong to Penstock.
	Report report.Report
	// Object is the object without its status.
	Object store.Object
	Old    any
	// Generation is the generation that the report describes.
	Generation int64
	// Controller is Penstock's controllerName. Now is the time, in whole seconds.
	Controller string
	Now        metav1.Time

	// Gated are the targets of an AccessPolicy (store.GatedTargets).
	Gated []v1alpha1.GatedTarget
	// Addresses are a Gateway's addresses.
	Addresses []gatewayv1.GatewayStatusAddress
	// Proxies is an argument of Programmed, for Gateways and ListenerSets. nil: the conditions stay
	// as reported.
	Proxies *Proxies
	// AncestorProxies returns the Proxies for a policy's entry about a Gateway. before has the
	// entry's conditions. nil: the conditions stay as reported.
	AncestorProxies func(gateway report.ParentRef, before []metav1.Condition) *Proxies
	// Features and Supported are for GatewayClasses. Features are the supported features. Supported
	// is the SupportedVersion condition.
	Features  []gatewayv1.FeatureName
	Supported *report.Condition
}

// longest is the maximum length in bytes of a condition's message (metav1.Condition).
const longest = 32768

// conditions returns the conditions of other projects in old, followed by want.
func (in Input) conditions(old []metav1.Condition, want []report.Condition) []metav1.Condition {
	out := make([]metav1.Condition, 0, len(want))
	for _, c := range old {
		if othersType(c.Type) {
			out = append(out, c)
		}
	}
	for _, c := range want {
		generation := in.Generation
		if c.Type == report.Programmed && in.Proxies != nil {
			var older int64
			if c, older = Programmed(c, *in.Proxies); older != 0 {
				generation = older
			}
		}
		n := metav1.Condition{
			Type: c.Type, Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
			ObservedGeneration: generation, LastTransitionTime: in.Now,
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

// othersType reports whether a condition type belongs to another project, such as
// "special.io/SomeField".
func othersType(typ string) bool {
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

// later reports whether conditions describe a later generation than in.Generation: "the
// implementation's copy of the object is stale" (Gateway API, GatewayStatus.Conditions).
func (in Input) later(list []metav1.Condition) bool {
	for _, c := range list {
		if !othersType(c.Type) && c.ObservedGeneration > in.Generation {
			return true
		}
	}
	return false
}

// Conditions is the shape of a status that consists of conditions.
func Conditions[T store.Object, S any](status func(T) *S, conditions func(*S) *[]metav1.Condition) *Shape {
	return &Shape{
		Take: func(obj store.Object) any { return take(status(obj.(T))) },
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

// Stalled is the condition type of kstatus (sigs.k8s.io/cli-utils) for an object that stays broken
// until this or another object changes.
const Stalled = "Stalled"

// Own is the shape of a status of one of Penstock's kinds: conditions, with the condition Stalled,
// and the observed generation. parts returns the conditions and the observed generation in a
// status. The observed generation is -1 before the first write, and 0 if the installed CRD lacks
// the field.
func Own[T store.Object, S any](status func(T) *S, parts func(*S) (*[]metav1.Condition, *int64)) *Shape {
	return &Shape{
		Take: func(obj store.Object) any { return take(status(obj.(T))) },
		Make: func(in Input) any {
			old := in.Old.(*S)
			before, observed := parts(old)
			if len(in.Report.Conditions) == 0 || in.later(*before) {
				return old
			}
			out := *old
			conditions, generation := parts(&out)
			*conditions = in.conditions(*before, withStalled(in.Report.Conditions))
			if *observed != 0 {
				*generation = in.Generation
			}
			return &out
		},
	}
}

func withStalled(conditions []report.Condition) []report.Condition {
	i := slices.IndexFunc(conditions, func(c report.Condition) bool { return c.Status == report.False })
	if i < 0 {
		return conditions
	}
	return append(slices.Clip(conditions), report.Condition{Type: Stalled, Status: report.True,
		Reason: conditions[i].Reason, Message: conditions[i].Message})
}

func take[S any](status *S) *S {
	var zero S
	out := *status
	*status = zero
	return &out
}
