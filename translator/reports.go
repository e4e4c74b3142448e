package translator

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/access"
	"github.com/penstock-project/penstock/translator/addresses"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/translator/services"
)

func (t *tables) declareReports() {
	t.declareReport("gatewayReports", t.stored(store.Gateways.Kind()),
		func(r *graph.Reader, key string) (report.Report, bool) {
			g, ok := t.gateways.Get(r, key)
			if !ok && t.cfg.StandAlone != nil { // other controllers own all Gateways
				return report.Report{}, false
			}
			if !ok {
				return deref(gatewayapi.NotOurs(r, t.cfg.gatewayAPI(), key))
			}
			rep := gatewayapi.GatewayReport(g, func(listener string) int32 { return t.attached(r, key, listener) })
			if f, found := t.peerPortTaken(r, g); found {
				rep.Findings = append(slices.Clip(rep.Findings), f)
			}
			return access.AffectGateway(rep, t.effectsAt(r, g.Ref)), true
		})
	t.declareReport("listenerSetReports", t.stored(store.ListenerSets.Kind()),
		func(r *graph.Reader, key string) (report.Report, bool) {
			return deref(gatewayapi.ListenerSetReport(r, t.cfg.gatewayAPI(), key, t.gateway(r),
				func(gateway, listener string) int32 { return t.attached(r, gateway, listener) }))
		})
	t.declareReport("poolReports", []graph.Source[string]{t.pools}, t.poolReport)
	t.declareReport("importReports", []graph.Source[string]{t.imports},
		func(r *graph.Reader, key string) (report.Report, bool) {
			imp, ok := t.imports.Get(r, key)
			if !ok {
				return report.Report{}, false
			}
			gateways, spilledTo := t.usersOfImport(r, imp)
			var ports []report.Finding
			if imp.Credentials {
				ports = inference.PickerPortFindings(r, key)
			}
			rep := inference.ImportReport(imp, ports, gateways, spilledTo)
			whole := objectid.Target{Pool: poolAt(key), Import: true}
			rep.Findings = append(rep.Findings, t.exposedPool(r, imp.Ref, whole)...)
			return rep, true
		})
}

func (t *tables) fleetReport(r *graph.Reader, key string) (report.Report, bool) {
	fleet, ok := store.EnvoyFleets.Get(r, key)
	if !ok || t.cfg.StandAlone != nil {
		return report.Report{}, false
	}
	rep := report.Report{Owner: store.EnvoyFleets.Ref(fleet), Conditions: []report.Condition{{
		Type: string(gatewayv1.GatewayConditionAccepted), Status: report.True,
		Reason: string(gatewayv1.GatewayReasonAccepted)}}}
	if t.cfg.InvalidFleet == nil {
		return rep, true
	}
	if field, problem, fix := t.cfg.InvalidFleet(&fleet.Spec); field != "" {
		rep.Conditions[0].Status = report.False
		rep.Conditions[0].Reason = string(gatewayv1.GatewayReasonInvalidParameters)
		rep.Conditions[0].Message = field + ": " + problem + "; " + fix
		rep.Findings = []report.Finding{{Severity: report.Error, Owner: rep.Owner, Field: field, Problem: problem,
			Fix: fix}}
	}
	return rep, true
}

func (t *tables) declarePolicyReports() {
	t.declareReport("envoyFleetReports", t.stored(store.EnvoyFleets.Kind()), t.fleetReport)
	t.declareReport("poolPolicyReports", t.stored(store.PoolPolicies.Kind()),
		func(r *graph.Reader, key string) (report.Report, bool) {
			rep, ok := inference.PolicyReport(r, lookup{t}, key)
			if f, found := inference.NotListening(r, key); t.cfg.NoPublishers && found {
				rep.Findings = append(rep.Findings, f)
			}
			return rep, ok
		})
	t.declareReport("accessPolicyReports", t.stored(store.AccessPolicies.Kind()),
		func(r *graph.Reader, key string) (report.Report, bool) { return access.Report(r, key, lookup{t}) })
	t.declareReport("backendTLSPolicyReports", t.stored(store.BackendTLSPolicies.Kind()),
		func(r *graph.Reader, key string) (report.Report, bool) {
			return gatewayapi.PolicyReport(r, key, lookup{t})
		})
	t.declareReport("inferenceModelReports", t.stored(store.InferenceModels.Kind()),
		func(r *graph.Reader, key string) (report.Report, bool) {
			return inference.ModelReport(r, lookup{t}, key)
		})
	t.declareReport("inferenceModelRewriteReports", t.stored(store.InferenceModelRewrites.Kind()),
		func(r *graph.Reader, key string) (report.Report, bool) {
			return inference.RewriteReport(r, lookup{t}, key)
		})
	t.declareReport("inferenceObjectiveReports", t.stored(store.InferenceObjectives.Kind()),
		func(r *graph.Reader, key string) (report.Report, bool) {
			return inference.ObjectiveReport(r, lookup{t}, key)
		})
	// Only EndpointSlices with a problem, and with routes to them, have a row. A row for each
	// EndpointSlice took 600 bytes.
	t.declareReport("endpointSliceReports", []graph.Source[string]{t.assignmentsByOutside}, sliceReport)
	if !t.cfg.Slices && t.cfg.StandAlone == nil {
		t.declareReport("serviceReports", t.stored(store.Services.Kind()), serviceReport)
	}
	t.declareReport("modelServersReports", t.stored(store.ModelServers.Kind()),
		func(r *graph.Reader, key string) (report.Report, bool) {
			return inference.ServersReport(r, key)
		})
}

func sliceReport(r *graph.Reader, key string) (report.Report, bool) {
	slice, ok := store.EndpointSlices.Get(r, key)
	if !ok {
		return report.Report{}, false
	}
	rep := report.Report{Owner: store.EndpointSlices.Ref(slice)}
	if slice.AddressType == discoveryv1.AddressTypeFQDN {
		rep.Findings = []report.Finding{{Severity: report.Error, Owner: rep.Owner, Field: "addressType",
			Problem: "it has no effect: host names of an EndpointSlice are not resolved",
			Fix:     "write IP addresses, or a Service of type ExternalName in place of the EndpointSlice"}}
		return rep, true
	}
	for _, problem := range services.Outside(r, slice) {
		rep.Findings = append(rep.Findings, report.Finding{
			Severity: report.Error, Owner: rep.Owner, Field: "endpoints", Problem: problem, Fix: addresses.Fix(problem),
		})
	}
	return rep, len(rep.Findings) > 0
}

func serviceReport(r *graph.Reader, key string) (report.Report, bool) {
	svc, ok := store.Services.Get(r, key)
	if !ok {
		return report.Report{}, false
	}
	rep := report.Report{Owner: store.Services.Ref(svc)}
	for _, i := range services.Unnamed(r, svc) {
		rep.Findings = append(rep.Findings, report.Finding{Severity: report.Error, Owner: rep.Owner,
			Field: fmt.Sprintf("spec.ports[%d].targetPort", i),
			Problem: fmt.Sprintf("no Pod that the Service selects has a %s port named %s",
				cmp.Or(svc.Spec.Ports[i].Protocol, corev1.ProtocolTCP), svc.Spec.Ports[i].TargetPort.StrVal),
			Fix: "write the name of a container's port, or its number"})
	}
	return rep, len(rep.Findings) > 0
}

func (t *tables) poolReport(r *graph.Reader, key string) (report.Report, bool) {
	p, ok := t.pools.Get(r, key)
	if !ok {
		return report.Report{}, false
	}
	members, _ := t.members.Get(r, p.Name)
	routesSpill, _ := t.attachmentsByHop.Each(r, p.OwnHop())
	rep := inference.PoolReport(p, t.gatewaysNaming(r, p.Ref), routesSpill > 0, members.Members)
	rep.Findings = append(rep.Findings, t.exposedPool(r, p.Ref, p.Name)...)
	rep.Findings = append(rep.Findings, t.gatedExport(r, p)...)
	return access.AffectParents(rep, t.effectsAt(r, p.Ref)), true
}

func (t *tables) usersOfImport(r *graph.Reader, imp *model.Import) (gateways []report.Ref, spilledTo bool) {
	spills := func(name string) bool {
		routes, _ := t.attachmentsByHop.Each(r, model.HopTo(imp.Ref.Kind, imp.Ref.Namespace, name))
		return routes > 0
	}
	spilledTo = spills(imp.Ref.Name) && gatewayapi.HasItsName(r, imp.Ref.Namespace, imp.Ref.Name)
	for _, m := range imp.Members {
		spilledTo = spilledTo || spills(gatewayapi.AliasName(imp.Ref.Name, m.Name)) &&
			gatewayapi.IsImportAlias(r, imp.Ref.Namespace, imp.Ref.Name, m.Name)
	}
	return t.gatewaysNaming(r, imp.Ref), spilledTo
}

func (t *tables) gatewaysNaming(r *graph.Reader, ref report.Ref) (gateways []report.Ref) {
	for _, row := range t.attachmentsByBackend.By(r, store.TargetOf(ref)) {
		gateways = append(gateways, t.gatewayRefs(r, row.Value)...)
	}
	slices.SortFunc(gateways, report.Ref.Compare)
	return slices.Compact(gateways)
}

func (t *tables) gatewayRefs(r *graph.Reader, a *model.Attachment) (refs []report.Ref) {
	for _, gw := range gatewaysOf(a) {
		if g, ok := t.gateways.Get(r, gw); ok {
			refs = append(refs, g.Ref)
		}
	}
	return refs
}

func (l lookup) Attached(r store.Reader, id model.ClusterID) (out []gatewayapi.RouteGateways) {
	reader := r.(*graph.Reader)
	routes := l.attachmentsByCluster
	if id.External() {
		routes = l.attachmentsByPicker
	}
	for _, row := range routes.By(reader, id) {
		out = append(out, gatewayapi.RouteGateways{Route: row.Value.Route, Gateways: l.gatewayRefs(reader, row.Value)})
	}
	return out
}

func (t *tables) attached(r *graph.Reader, gateway, listener string) int32 {
	n, _ := t.attachmentsByListener.Each(r, listenerKey{gateway, listener})
	return int32(n)
}
