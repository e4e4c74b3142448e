package translator

import (
	"slices"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/model"
)

// backendPolicy is the BackendTLSPolicy for what a cluster's name says; nil if there is none.
func backendPolicy(r store.Reader, parts []string) *gatewayapi.BackendTLS {
	target, section := report.Ref{Namespace: parts[1], Name: parts[2]}, ""
	switch parts[0] {
	case "pool":
		target.Group, target.Kind = store.InferencePools.Group(), store.InferencePools.Kind()
	case "import", "parent":
		target.Group, target.Kind = store.InferencePoolImports.Group(), store.InferencePoolImports.Kind()
		section = parts[3]
	case "passthrough": // TLS already
		return nil
	default:
		target.Kind = store.Services.Kind()
		svc, ok := store.Services.Get(r, target.Key())
		if !ok {
			return nil
		}
		for _, p := range svc.Spec.Ports {
			if p.Port == model.PortOf(parts) {
				section = p.Name
			}
		}
	}
	return gatewayapi.PolicyFor(r, target, section)
}

// secure has a cluster speak TLS as a policy says.
func secure(c *model.Cluster, p *gatewayapi.BackendTLS) {
	if p != nil {
		c.TLS, c.Owners = p.TLS, append(slices.Clip(c.Owners), p.Policy)
	}
}

// distrusted says that a policy leaves nobody to trust. The cluster of such a backend has no endpoints: requests are
// answered 503, and not sent in clear.
func distrusted(p *gatewayapi.BackendTLS) bool { return p != nil && p.TLS == nil }

// policySections are what a policy's target is divided into; nil if there is no such target.
func (t *tables) policySections(r *graph.Reader, target report.Ref) []string {
	out := []string{}
	switch target.Kind {
	case store.Services.Kind():
		svc, ok := store.Services.Get(r, target.Key())
		if !ok {
			return nil
		}
		for _, p := range svc.Spec.Ports {
			out = append(out, p.Name)
		}
	case store.InferencePools.Kind():
		if _, ok := t.pools.Get(r, target.Key()); !ok {
			return nil
		}
	case store.InferencePoolImports.Kind():
		imp, ok := t.imports.Get(r, target.Key())
		if !ok {
			return nil
		}
		for _, m := range imp.Members {
			out = append(out, m.Name)
		}
	}
	return out
}

// policyGateways are the Gateways that send requests to what a policy is about: its ancestors (GEP-713).
func (t *tables) policyGateways(r *graph.Reader, key string) []report.Ref {
	p, ok := store.BackendTLSPolicies.Get(r, key)
	if !ok {
		return nil
	}
	var out []report.Ref
	for _, target := range p.Spec.TargetRefs {
		for _, cluster := range t.policyClusters(r, string(target.Kind), p.Namespace, string(target.Name)) {
			for _, row := range t.attachments.By(r, byCluster, cluster) {
				for _, gw := range gatewaysOf(row.Value) {
					if g, ok := t.gateways.Get(r, gw); ok && !slices.Contains(out, g.Ref) {
						out = append(out, g.Ref)
					}
				}
			}
		}
	}
	slices.SortFunc(out, report.Ref.Compare)
	return out
}

// policyStreams are the routes whose connections reach what a policy is about as TLS already, which no policy changes.
func (t *tables) policyStreams(r *graph.Reader, key string) (out []report.Ref) {
	p, ok := store.BackendTLSPolicies.Get(r, key)
	if !ok {
		return nil
	}
	for _, target := range p.Spec.TargetRefs {
		svc, ok := store.Services.Get(r, p.Namespace+"/"+string(target.Name))
		if !ok || string(target.Kind) != store.Services.Kind() {
			continue
		}
		for _, port := range svc.Spec.Ports {
			for _, row := range t.attachments.By(r, byCluster, model.PassthroughCluster(model.TCPCluster(svc.Namespace, svc.Name, port.Port))) {
				if !slices.Contains(out, row.Value.Route) {
					out = append(out, row.Value.Route)
				}
			}
		}
	}
	slices.SortFunc(out, report.Ref.Compare)
	return out
}

// policyClusters names every cluster that can be made of a policy's target.
func (t *tables) policyClusters(r *graph.Reader, kind, namespace, name string) (out []string) {
	switch key := namespace + "/" + name; kind {
	case store.Services.Kind():
		if svc, ok := store.Services.Get(r, key); ok {
			for _, p := range svc.Spec.Ports {
				out = append(out, model.ServiceCluster(namespace, name, p.Port), model.GRPCCluster(namespace, name, p.Port),
					model.TCPCluster(namespace, name, p.Port), model.PickerCluster(namespace, name, p.Port), model.HealthCluster(model.PickerCluster(namespace, name, p.Port)))
			}
		}
	case store.InferencePools.Kind():
		out = append(out, model.PoolCluster(namespace, name), model.LastCluster(model.PoolCluster(namespace, name)))
	case store.InferencePoolImports.Kind():
		if imp, ok := t.imports.Get(r, key); ok {
			for _, m := range imp.Members {
				out = append(out, m.Cluster, model.LastCluster(m.Cluster))
			}
		}
	}
	return out
}
