package translator

import (
	"slices"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
)

// declareReports: of Gateways, ListenerSets, pools and imports. (A route's report comes out of its attachment.)
func (t *tables) declareReports() {
	t.declareReport("gatewayReports", t.stored(store.Gateways.Kind()), func(r *graph.Reader, key string) (report.Report, bool) {
		g, ok := t.gateways.Get(r, key)
		if !ok {
			return deref(gatewayapi.NotOurs(r, t.cfg.gatewayAPI(), key))
		}
		return gatewayapi.GatewayReport(g, func(listener string) int32 { return t.attached(r, key, listener) }), true
	})
	t.declareReport("listenerSetReports", t.stored(store.ListenerSets.Kind()), func(r *graph.Reader, key string) (report.Report, bool) {
		return deref(gatewayapi.ListenerSetReport(r, t.cfg.gatewayAPI(), key, t.gateway(r),
			func(gateway, listener string) int32 { return t.attached(r, gateway, listener) }))
	})
	t.declareReport("poolReports", []graph.Source[string]{t.pools}, t.poolReport)
	t.declareReport("importReports", []graph.Source[string]{t.imports}, func(r *graph.Reader, key string) (report.Report, bool) {
		imp, ok := t.imports.Get(r, key)
		if !ok {
			return report.Report{}, false
		}
		return inference.ImportReport(imp), true
	})
}

// declarePolicyReports: of policies, and of what describes the servers of pools.
func (t *tables) declarePolicyReports() {
	t.declareReport("poolPolicyReports", t.stored(store.PoolPolicies.Kind()), func(r *graph.Reader, key string) (report.Report, bool) {
		return inference.PolicyReport(r, lookup{t}, key)
	})
	t.declareReport("backendTLSPolicyReports", t.stored(store.BackendTLSPolicies.Kind()), func(r *graph.Reader, key string) (report.Report, bool) {
		return gatewayapi.PolicyReport(r, key, lookup{t})
	})
	t.declareReport("inferenceModelReports", t.stored(store.InferenceModels.Kind()), func(r *graph.Reader, key string) (report.Report, bool) {
		return inference.ModelReport(r, lookup{t}, key)
	})
	t.declareReport("modelServersReports", t.stored(store.ModelServers.Kind()), func(r *graph.Reader, key string) (report.Report, bool) {
		return inference.ServersReport(r, key)
	})
}

func (t *tables) poolReport(r *graph.Reader, key string) (report.Report, bool) {
	p, ok := t.pools.Get(r, key)
	if !ok {
		return report.Report{}, false
	}
	var gateways []report.Ref
	for _, row := range t.attachmentsByBackend.By(r, store.TargetKey(p.Ref.Kind, p.Ref.Namespace, p.Ref.Name)) {
		gateways = append(gateways, t.gatewayRefs(r, row.Value)...)
	}
	slices.SortFunc(gateways, report.Ref.Compare)
	members, _ := t.members.Get(r, p.Name)
	routesSpill, _ := t.attachmentsByHop.Each(r, p.OwnHop())
	return inference.PoolReport(p, slices.Compact(gateways), routesSpill > 0, len(members.Members)), true
}

// gatewayRefs are the Gateways that a route is attached to.
func (t *tables) gatewayRefs(r *graph.Reader, a *model.Attachment) (refs []report.Ref) {
	for _, gw := range gatewaysOf(a) {
		if g, ok := t.gateways.Get(r, gw); ok {
			refs = append(refs, g.Ref)
		}
	}
	return refs
}

// Attached implements gatewayapi.PolicyTargets.
func (l lookup) Attached(r store.Reader, id model.ClusterID) (out []gatewayapi.RouteGateways) {
	reader := r.(*graph.Reader)
	for _, row := range l.attachmentsByCluster.By(reader, id) {
		out = append(out, gatewayapi.RouteGateways{Route: row.Value.Route, Gateways: l.gatewayRefs(reader, row.Value)})
	}
	return out
}

// attached counts the routes of one listener.
func (t *tables) attached(r *graph.Reader, gateway, listener string) int32 {
	n, _ := t.attachmentsByListener.Each(r, listenerKey{gateway, listener})
	return int32(n)
}
