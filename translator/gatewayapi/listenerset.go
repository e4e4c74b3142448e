package gatewayapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
)

const reasonParentNotProgrammed gatewayv1.ListenerSetConditionReason = "ParentNotProgrammed"

func parentOf(set *gatewayv1.ListenerSet) string {
	p := set.Spec.ParentRef
	if p.Group != nil && *p.Group != gatewayv1.GroupName || p.Kind != nil && *p.Kind != "Gateway" {
		return ""
	}
	return objectid.Join(cmp.Or(string(ptr.Deref(p.Namespace, "")), set.Namespace), string(p.Name))
}

func listenerSets(r store.Reader, key string) []*gatewayv1.ListenerSet {
	sets := store.ListenerSets.By(r, store.ByParent, key)
	return slices.SortedFunc(slices.Values(sets), func(a, b *gatewayv1.ListenerSet) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(store.ID(a), store.ID(b)))
	})
}

func takes(r store.Reader, gw *gatewayv1.Gateway, namespace string) bool {
	a := gw.Spec.AllowedListeners
	if a == nil || a.Namespaces == nil || a.Namespaces.From == nil {
		return false
	}
	switch *a.Namespaces.From {
	case gatewayv1.NamespacesFromAll:
		return true
	case gatewayv1.NamespacesFromSame:
		return namespace == gw.Namespace
	case gatewayv1.NamespacesFromSelector:
		selector, err := metav1.LabelSelectorAsSelector(a.Namespaces.Selector)
		return err == nil && a.Namespaces.Selector != nil && selector.Matches(namespaceLabels(r, namespace))
	}
	return false
}

func (b *listenerBuilder) sets() {
	for i, set := range listenerSets(b.r, store.ID(b.gw)) {
		out := model.ListenerSet{Ref: store.ListenerSets.Ref(set)}
		if takes(b.r, b.gw, set.Namespace) {
			b.owner = out.Ref
			for j := range set.Spec.Listeners {
				listener := gatewayv1.Listener(set.Spec.Listeners[j])
				b.add(&listener, i+1, j)
			}
		} else {
			problem := fmt.Sprintf(
				"Gateway %s does not allow ListenerSets of namespace %s (see its spec.allowedListeners)",
				b.out.Ref.Key(), set.Namespace)
			out.Conditions = setConditions(gatewayv1.ListenerSetReasonNotAllowed, gatewayv1.ListenerSetReasonNotAllowed,
				problem)
			out.Findings = append(out.Findings, finding(out.Ref, "spec.parentRef", problem, ""))
		}
		b.out.Sets = append(b.out.Sets, out)
	}
	b.owner = b.out.Ref
}

func (b *listenerBuilder) finishSets(gateway, programmed report.Condition) {
	for i := range b.out.Sets {
		set := &b.out.Sets[i]
		if set.Conditions != nil {
			continue
		}
		all, bad := 0, []string{}
		for _, l := range b.out.Listeners {
			if l.Owner == set.Ref {
				all++
				if l.Chain == "" {
					bad = append(bad, l.Name)
				}
			}
		}
		message := "not served: listener " + strings.Join(bad, ", ")
		switch {
		case gateway.Status != report.True && gateway.Reason != string(gatewayv1.GatewayReasonListenersNotValid):
			set.Conditions = setConditions(gatewayv1.ListenerSetReasonParentNotAccepted, reasonParentNotProgrammed,
				"the Gateway is not accepted: "+gateway.Message)
		case len(bad) == all:
			set.Conditions = setConditions(gatewayv1.ListenerSetReasonListenersNotValid,
				gatewayv1.ListenerSetReasonListenersNotValid, message)
		default:
			set.Accepted = true
			set.Conditions = []report.Condition{
				trueCondition(gatewayv1.ListenerSetConditionAccepted, gatewayv1.ListenerSetReasonAccepted),
				trueCondition(gatewayv1.ListenerSetConditionProgrammed, gatewayv1.ListenerSetReasonProgrammed),
			}
			if len(bad) > 0 {
				set.Conditions[0].Reason, set.Conditions[0].Message = string(
					gatewayv1.ListenerSetReasonListenersNotValid), message
			}
			if programmed.Status != report.True {
				set.Conditions[1] = falseCondition(gatewayv1.ListenerSetConditionProgrammed, reasonParentNotProgrammed,
					"the Gateway is not programmed: "+programmed.Message)
			}
		}
	}
}

func setConditions(accepted, programmed gatewayv1.ListenerSetConditionReason, message string) []report.Condition {
	return []report.Condition{
		falseCondition(gatewayv1.ListenerSetConditionAccepted, accepted, message),
		falseCondition(gatewayv1.ListenerSetConditionProgrammed, programmed, message),
	}
}

func (b *listenerBuilder) share() {
	for _, f := range b.found {
		to := &b.out.Findings
		for i := range b.out.Sets {
			if b.out.Sets[i].Ref == f.Owner {
				to = &b.out.Sets[i].Findings
			}
		}
		*to = append(*to, f)
	}
}

// ListenerSetReport reports on a ListenerSet. It returns nil if another controller serves its
// Gateway. attached counts the routes of a listener key.
func ListenerSetReport(r store.Reader, cfg Config, key string, gateways func(key string) (*model.Gateway, bool),
	attached func(gateway, listener string) int32) *report.Report {
	set, ok := store.ListenerSets.Get(r, key)
	if !ok {
		return nil
	}
	ref := store.ListenerSets.Ref(set)
	parent := parentOf(set)
	if parent == "" {
		return &report.Report{
			Owner: ref, Findings: []report.Finding{
				finding(ref, "spec.parentRef", "the parent of a ListenerSet must be a Gateway", "name a Gateway"),
			},
		}
	}
	gw, mine := gateways(parent)
	if !mine {
		if _, exists := store.Gateways.Get(r, parent); exists {
			return nil
		}
		f := finding(ref, "spec.parentRef", NotExist(r, ref, store.RefOf(store.Gateways, parent)), fixMissing)
		if !cfg.AnyClass { // another controller's Gateway may be created later
			f.Severity = report.Warning
		}
		return &report.Report{Owner: ref, Findings: []report.Finding{f}}
	}
	for _, s := range gw.Sets {
		if s.Ref == ref {
			return &report.Report{
				Owner: ref, Conditions: s.Conditions, Findings: s.Findings,
				Listeners: listenerReports(gw, ref, func(listener string) int32 { return attached(parent, listener) }),
			}
		}
	}
	return nil
}
