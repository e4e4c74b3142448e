package gatewayapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
)

const reasonRouteConflict gatewayv1.RouteConditionReason = "RouteConflict"

const reasonUngated gatewayv1.RouteConditionReason = "Ungated"

// Attach decides to which listeners a route attaches, what its rules do, and its report. A route
// that is not Accepted because of its rules still attaches: its requests get 500.
func Attach(r store.Reader, backends Backends, c *model.Candidate, losses []model.Loss) *model.Attachment {
	a := placed(c, losses)
	if len(a.Parents) == 0 {
		return a
	}
	fault(r, c.Route)
	b := ruleBuilder{r: r, backends: backends, out: a}
	b.build()
	for i := range a.Parents {
		a.Parents[i].Conditions = append(b.conditions(a.Parents[i].Conditions), b.resolvedRefs())
	}
	if !slices.ContainsFunc(a.Places, func(p model.Place) bool { return len(p.Hosts) > 0 }) {
		a.Clusters, a.Hops = nil, nil
	}
	return a
}

func placed(c *model.Candidate, losses []model.Loss) *model.Attachment {
	a := &model.Attachment{Route: c.Route, Created: c.Created, Hostnames: c.Hostnames,
		Findings: slices.Clone(c.Findings)}
	for i := range c.Parents {
		attachParent(a, &c.Parents[i], losses)
	}
	slices.SortFunc(a.Places, func(a, b model.Place) int {
		return cmp.Or(strings.Compare(a.Gateway, b.Gateway), strings.Compare(a.Listener, b.Listener))
	})
	return a
}

func attachParent(a *model.Attachment, parent *model.CandidateParent, losses []model.Loss) {
	if parent.NotAccepted != nil {
		a.Parents = append(a.Parents, report.Parent{
			Ref: parent.Ref, Conditions: []report.Condition{*parent.NotAccepted},
		})
		return
	}
	kept := 0
	reason := reasonRouteConflict
	fix := "choose other hostnames, or another listener"
	if a.Route.Kind == store.TCPRoutes.Kind() || a.Route.Kind == store.UDPRoutes.Kind() {
		fix = "choose another listener"
	}
	var messages []string
	for _, place := range parent.Places {
		gone := false
		for _, loss := range losses {
			switch {
			case loss.Over != "" && loss.Gateway == place.Gateway && loss.Chain == place.Chain:
				if fix = budgetFix(loss); loss.Copies {
					place.Narrow = true
				} else {
					gone, reason = true, reasonBudget
				}
				if !slices.Contains(messages, loss.Over) {
					messages = append(messages, loss.Over)
				}
			case loss.Gateway != place.Gateway || loss.Listener != place.Listener:
			case loss.Gate != "":
				gone, reason = true, reasonUngated
				fix = "set spec.ungated: Allow in the policy, or choose another listener"
				messages = append(messages, fmt.Sprintf("AccessPolicy %s gates listener %s, and no gate can read the "+
					"%s of a %s", loss.Gate, place.Listener, carried(a.Route.Kind), a.Route.Kind))
			case loss.Host == "":
				gone = true
				messages = append(messages,
					fmt.Sprintf(
						"on listener %s the hostnames belong to %s: routes of HTTP and of gRPC do not share a "+
							"hostname, and it came first", place.Listener, loss.Winner))
			default:
				place.Hosts = slices.DeleteFunc(slices.Clone(place.Hosts),
					func(h string) bool { return h == loss.Host })
				messages = append(messages,
					fmt.Sprintf("on listener %s %s%s go to %s, which is %s", place.Listener, carried(a.Route.Kind),
						hostText(loss.Host), loss.Winner, precedence(a.Route.Kind)))
			}
		}
		if gone {
			continue
		}
		kept++
		if !slices.ContainsFunc(a.Places, func(o model.Place) bool {
			return o.Gateway == place.Gateway && o.Listener == place.Listener
		}) {
			a.Places = append(a.Places, place)
		}
	}
	accepted := trueCondition(gatewayv1.RouteConditionAccepted, gatewayv1.RouteReasonAccepted)
	severity := report.Warning
	if kept == 0 {
		text := strings.Join(messages, "; ")
		if reason == reasonBudget {
			text += ": " + fix
		}
		accepted = falseCondition(gatewayv1.RouteConditionAccepted, reason, text)
		severity = report.Error
	}
	for _, t := range messages {
		f := finding(a.Route, parent.Field, t, fix)
		f.Severity = severity
		a.Findings = append(a.Findings, f)
	}
	a.Parents = append(a.Parents, report.Parent{Ref: parent.Ref, Conditions: []report.Condition{accepted}})
}

func precedence(kind string) string {
	if kind == store.UDPRoutes.Kind() {
		return "older"
	}
	return "older or has a more specific hostname"
}

func hostText(host string) string {
	if host == "*" {
		return ""
	}
	return " for " + host
}

// Accepted reports whether a route counts in AttachedRoutes.
func Accepted(a *model.Attachment) bool {
	return slices.ContainsFunc(a.Parents, func(p report.Parent) bool {
		c := report.Find(p.Conditions, string(gatewayv1.RouteConditionAccepted))
		return c != nil && c.Status == report.True
	})
}
