package gatewayapi

import (
	"github.com/penstock-project/penstock/discovery/report"
	"github.com/penstock-project/penstock/translator/model"
)

// GatewayReport is what is said about a Gateway. attached is the number of routes for each listener name: those with a
// Place there that are Accepted.
func GatewayReport(gw *model.Gateway, attached map[string]int32) report.Report {
	out := report.Report{Owner: gw.Ref, Conditions: gw.Conditions, Addresses: gw.Addresses, Findings: gw.Findings}
	for _, l := range gw.Listeners {
		out.Listeners = append(out.Listeners, report.Listener{
			Name: l.Name, SupportedKinds: l.SupportedKinds, AttachedRoutes: attached[l.Name], Conditions: l.Conditions,
		})
	}
	return out
}

// RouteReport is what is said about a route.
func RouteReport(a *model.Attachment) report.Report {
	return report.Report{Owner: a.Route, Parents: a.Parents, Findings: a.Findings}
}
