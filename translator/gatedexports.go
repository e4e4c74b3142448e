package translator

import (
	"fmt"

	upstream "sigs.k8s.io/gateway-api-inference-extension/apix/v1alpha1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/model"
)

// gatedExport returns a finding about a pool that AccessPolicies gate here, but that other clusters
// import in EndpointMode. Their requests reach its servers without passing this cluster's Gateways.
func (t *tables) gatedExport(r *graph.Reader, p *model.Pool) []report.Finding {
	pool, ok := store.InferencePools.Get(r, p.Name.String())
	if !ok || pool.Annotations[upstream.ExportAnnotationKey] != upstream.ExportAnnotationVal ||
		pool.Annotations[inferenceapi.ExportModeAnnotation] == string(inferenceapi.ParentMode) {
		return nil
	}
	how := ""
	if effects := t.effectsAt(r, p.Ref); len(effects) > 0 {
		how = "AccessPolicy " + effects[0].Policy + " gates it"
	} else if n, hosts := t.hostsByGatedPool.Each(r, p.Name.String()); n > 0 {
		way := passages(hosts, p.Name.String(), true)[0]
		how = fmt.Sprintf("AccessPolicy %s gates %s", way.policy, way)
	} else {
		return nil
	}
	return []report.Finding{{Severity: report.Warning, Owner: p.Ref,
		Field: fmt.Sprintf("metadata.annotations[%s]", upstream.ExportAnnotationKey),
		Problem: how + " in this cluster alone: other clusters reach the pool's servers directly, and their own " +
			"AccessPolicies decide",
		Fix: "write an AccessPolicy for the routes to the import in each importing cluster, or name the clusters " +
			"that may import it in penstock.dev/export-to"}}
}
