package access

import (
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// ConditionAffected is the type of the condition of an AccessPolicy's target (GEP-713, "Target
// object status").
const ConditionAffected = "penstock.dev/AccessPolicyAffected"

// Effect is an AccessPolicy in force at a target.
type Effect struct {
	Policy  string // "namespace/name"
	Section string // a listener or rule; "" for the whole target
}

// Effects returns the policies in force at a target: first the policy for the whole object, then
// the others by section. For a target without a name, it returns the policy that denies all
// requests at all objects of the kind in the namespace (AccessPolicySpec.Closed).
func Effects(r store.Reader, target report.Ref) (effects []Effect) {
	sections, exists := store.Sections(r, target)
	if !exists && target.Name != "" {
		return nil
	}
	for i, section := range slices.Insert(sections, 0, "") {
		if p := winner(r, target, section); p != nil && (i == 0 || section != "") {
			effects = append(effects, Effect{store.ID(p), section})
		}
	}
	return effects
}

// Affected returns the condition of an object with effects, or nil without effects.
func Affected(effects []Effect) []report.Condition {
	if len(effects) == 0 {
		return nil
	}
	texts := make([]string, len(effects))
	for i, e := range effects {
		texts[i] = "AccessPolicy " + e.Policy + " gates it"
		if e.Section != "" {
			texts[i] = "AccessPolicy " + e.Policy + " gates rule " + e.Section
		}
	}
	// A reason has no "/", so the message has the policy's name.
	return []report.Condition{{Type: ConditionAffected, Status: report.True, Reason: "Gated",
		Message: strings.Join(texts, "; ")}}
}

// AffectGateway adds the conditions of effects to the report on a Gateway: to the Gateway, or to
// the listener that a policy targets.
func AffectGateway(rep report.Report, effects []Effect) report.Report {
	var whole []Effect
	for _, e := range effects {
		if e.Section == "" {
			whole = append(whole, e)
			continue
		}
		for i := range rep.Listeners {
			if l := &rep.Listeners[i]; l.Name == e.Section {
				l.Conditions = append(slices.Clip(l.Conditions), Affected([]Effect{{Policy: e.Policy}})...)
			}
		}
	}
	rep.Conditions = append(slices.Clip(rep.Conditions), Affected(whole)...)
	return rep
}

// AffectParents adds the condition of effects to each parent in the report on a route or pool.
func AffectParents(rep report.Report, effects []Effect) report.Report {
	if len(effects) == 0 {
		return rep
	}
	rep.Parents = slices.Clone(rep.Parents)
	for i := range rep.Parents {
		p := &rep.Parents[i]
		p.Conditions = append(slices.Clip(p.Conditions), Affected(effects)...)
	}
	return rep
}
