package gatewayapi

import (
	"slices"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/model"
)

// GatewayReport reports on a Gateway. attached counts the Accepted routes of a listener key.
func GatewayReport(gw *model.Gateway, attached func(listener string) int32) report.Report {
	out := report.Report{
		Owner: gw.Ref, Conditions: gw.Conditions, Addresses: gw.Addresses, Findings: gw.Findings,
		Listeners: listenerReports(gw, gw.Ref, attached),
	}
	for _, s := range gw.Sets {
		if s.Accepted {
			out.AttachedListenerSets++
		}
	}
	return out
}

func listenerReports(gw *model.Gateway, owner report.Ref,
	attached func(listener string) int32) (out []report.Listener) {
	for _, l := range gw.Listeners {
		if l.Owner == owner {
			out = append(out, report.Listener{
				Name: l.Name, SupportedKinds: l.SupportedKinds, AttachedRoutes: attached(l.Key),
				Conditions: l.Conditions,
			})
		}
	}
	return out
}

// RouteReport reports on a route. overruns has the route's rules above a budget.
func RouteReport(a *model.Attachment, c *model.Candidate, overruns []model.Overrun) report.Report {
	out := report.Report{Owner: a.Route, Parents: a.Parents, Findings: a.Findings}
	if len(overruns) == 0 {
		return out
	}
	out.Parents, out.Findings = slices.Clone(a.Parents), slices.Clone(a.Findings)
	for i := range out.Parents {
		p := &out.Parents[i]
		here := slices.DeleteFunc(slices.Clone(overruns), func(o model.Overrun) bool {
			return c == nil || i >= len(c.Parents) || len(c.Parents[i].Places) == 0 ||
				c.Parents[i].Places[0].Gateway != o.Gateway
		})
		if len(here) > 0 {
			p.Conditions = overrun(a, p.Conditions, here)
		}
	}
	for _, o := range overruns {
		out.Findings = append(out.Findings,
			finding(a.Route, overrunField(o), overrunText(o)+"; requests that it might match are answered 500",
				"match by Exact or PathPrefix, or write fewer or shorter expressions"))
	}
	return out
}
