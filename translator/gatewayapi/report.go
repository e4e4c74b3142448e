package gatewayapi

import (
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/model"
)

// GatewayReport reports on a Gateway. attached counts the routes of a listener key: those with a Place there
// that are Accepted.
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

// listenerReports report on the listeners of one owner.
func listenerReports(gw *model.Gateway, owner report.Ref, attached func(listener string) int32) (out []report.Listener) {
	for _, l := range gw.Listeners {
		if l.Owner == owner {
			out = append(out, report.Listener{
				Name: l.Name, SupportedKinds: l.SupportedKinds, AttachedRoutes: attached(l.Key), Conditions: l.Conditions,
			})
		}
	}
	return out
}

// RouteReport reports on a route.
func RouteReport(a *model.Attachment) report.Report {
	return report.Report{Owner: a.Route, Parents: a.Parents, Findings: a.Findings}
}
