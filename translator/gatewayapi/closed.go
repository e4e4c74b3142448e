package gatewayapi

import (
	"reflect"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
)

const reasonInternalError gatewayv1.RouteConditionReason = "InternalError"

// Retain replaces Attach for a route at which Attach panics. The rules of the route's last
// attachment stay in force. Without a last attachment, all rules answer 500 or close the
// connection, so that no other route takes their traffic.
func Retain(r store.Reader, last *model.Attachment, c *model.Candidate, losses []model.Loss) *model.Attachment {
	a := placed(c, losses)
	if last != nil && !closed(last) {
		if reflect.DeepEqual(a.Places, last.Places) {
			return last
		}
		kept := *last
		kept.Places = a.Places
		return &kept
	}
	if len(a.Parents) == 0 {
		return a
	}
	b := ruleBuilder{r: r, out: a, closed: true}
	b.build()
	for i := range a.Parents {
		conditions := a.Parents[i].Conditions
		if conditions[0].Status == report.True {
			conditions[0] = falseCondition(gatewayv1.RouteConditionAccepted, reasonInternalError,
				"the route's translation panics, which is a bug of Penstock")
		}
		a.Parents[i].Conditions = append(conditions, b.resolvedRefs())
	}
	return a
}

func closed(a *model.Attachment) bool {
	return slices.ContainsFunc(a.Parents, func(p report.Parent) bool {
		return p.Conditions[0].Reason == string(reasonInternalError)
	})
}

func (b *ruleBuilder) closedRule(rule *model.Rule, field string, matches func(field string) []model.Match) {
	rule.Action = b.errorAction("This route's configuration cannot be translated.")
	defer func() {
		if recover() != nil {
			rule.Matches = nil
		}
	}()
	rule.Matches = matches(field)
}
