package inference

import (
	"fmt"
	"slices"

	upstream "sigs.k8s.io/gateway-api-inference-extension/apix/v1alpha1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/model"
)

// Tables looks up translated pools and imports by key, and records these reads as dependencies.
type Tables interface {
	Pool(r store.Reader, key string) (*model.Pool, bool)
	Import(r store.Reader, key string) (*model.Import, bool)
}

// Backends resolves routes' backendRefs to pools and imports. It implements gatewayapi.Backends.
type Backends struct{ Tables Tables }

// Resolve returns the clusters of a backendRef to an InferencePool or InferencePoolImport.
func (b Backends) Resolve(r store.Reader, ref report.Ref, _ int32) gatewayapi.Resolution {
	if ref.Kind == "InferencePool" {
		p, ok := b.Tables.Pool(r, ref.Key())
		if !ok {
			return missing(r, ref)
		}
		res := gatewayapi.Resolution{Ref: store.TargetOf(p.Ref)}
		addPool(&res, p, 1)
		useSpillNames(r, p)
		return finish(res)
	}
	imp, ok := importNamed(r, ref.Namespace, ref.Name,
		func(key string) (*model.Import, bool) { return b.Tables.Import(r, key) })
	if !ok {
		return missingImport(r, ref)
	}
	res := gatewayapi.Resolution{Ref: store.TargetOf(imp.Ref)}
	useNames(r, imp.Ref.Key())
	if imp.Cluster.IsZero() {
		b.apart(&res, r, imp)
	} else {
		b.together(&res, r, imp)
	}
	// If all clusters of an import have weight 0, the import counts as a backendRef of weight 0. If
	// some have a weight, but none of these is usable, the import is unresolved.
	takes := slices.ContainsFunc(res.Targets, func(t gatewayapi.Target) bool { return t.Share > 0 })
	broken := slices.ContainsFunc(imp.Members, func(m model.ImportMember) bool {
		return m.Problem != "" && m.Share > 0
	})
	if len(res.Targets) == 0 || !takes && broken {
		res.Targets = nil
		res.Reason = "BackendNotFound"
		res.Message = fmt.Sprintf("%s has no exporting cluster that can be reached", ref)
	}
	return finish(res)
}

func (b Backends) apart(res *gatewayapi.Resolution, r store.Reader, imp *model.Import) {
	for i := range imp.Members {
		m, before := &imp.Members[i], len(res.Targets)
		switch {
		case m.Problem != "" && m.Share > 0:
			continue
		case m.Problem != "":
			res.Targets = append(res.Targets, gatewayapi.Target{Cluster: m.Cluster})
		case m.Pool != nil:
			addPool(res, m.Pool, m.Share)
			useSpillNames(r, m.Pool)
		case m.Local:
			if p, ok := b.Tables.Pool(r, imp.Ref.Key()); ok {
				addPool(res, p, m.Share)
				useSpillNames(r, p)
			}
		default:
			res.Targets = append(res.Targets, gatewayapi.Target{
				Cluster: m.Cluster, Share: m.Share, Protocol: m.Protocol, MaxGateways: m.MaxGateways, Peer: m.Peer,
				Hostname: m.Hostname,
			})
			res.Clusters = append(res.Clusters, m.Cluster, model.OurPicker)
		}
		for j := range res.Targets[before:] {
			res.Targets[before+j].Hop = imp.Hop(m)
		}
	}
}

func (b Backends) together(res *gatewayapi.Resolution, r store.Reader, imp *model.Import) {
	res.Members = &gatewayapi.Members{Cluster: imp.Cluster, Spills: uint32(len(imp.Spill)), Order: imp.Order,
		RetryOn: imp.RetryOn}
	res.Clusters = append(res.Clusters, imp.Cluster)
	if c := imp.Choice; c != nil {
		res.Members.Chooser = &c.Picker
		res.Clusters = append(res.Clusters, c.Picker.Cluster)
	}
	for i := range imp.Members {
		m := &imp.Members[i]
		if m.Problem != "" {
			continue
		}
		t := gatewayapi.Target{Cluster: m.Cluster, Share: m.Share, Protocol: m.Protocol, MaxGateways: m.MaxGateways,
			Peer: m.Peer, Hop: imp.Hop(m), Hostname: m.Hostname}
		if !m.Local {
			t.Cluster = t.Cluster.As(model.LastVariant)
		}
		asked := model.OurPicker
		p := m.Pool
		if m.Local {
			p, _ = b.Tables.Pool(r, imp.Ref.Key())
		}
		if p != nil {
			last := lastBackend(p, m.Share)
			t.Cluster, t.Picker, t.External, t.Protocol = last.Cluster, last.Picker, p.External, p.Protocol
			asked = p.Picker.Cluster
		}
		// A cluster with share 0 gets no new requests, but may have requests in flight.
		res.Targets, res.Hops = append(res.Targets, t), append(res.Hops, imp.Hop(m))
		if res.Clusters = append(res.Clusters, t.Cluster); !asked.IsZero() {
			res.Clusters = append(res.Clusters, asked)
		}
	}
	addSpills(res, imp.Spill)
	for _, key := range imp.SpillImports {
		useNames(r, key)
	}
}

func useSpillNames(r store.Reader, p *model.Pool) {
	for _, key := range p.SpillImports {
		useNames(r, key)
	}
}

func missingImport(r store.Reader, ref report.Ref) gatewayapi.Resolution {
	key, cluster, known := gatewayapi.ImportNamed(r, ref.Namespace, ref.Name)
	if !known || cluster == "" {
		return missing(r, ref)
	}
	whole := store.RefOf(store.InferencePoolImports, key)
	message := fmt.Sprintf("%s means cluster %s of %s, which is outside %s of that import's PoolPolicy",
		ref.Name, cluster, whole, fieldWithin)
	return gatewayapi.Resolution{
		Ref: store.TargetOf(whole), Reason: "BackendNotFound",
		Message: message + "; allow the cluster there, or name another backend",
	}
}

// missing returns the Resolution for a missing object. While the object is missing, the suggestion
// of a similar name reads the whole namespace.
func missing(r store.Reader, ref report.Ref) gatewayapi.Resolution {
	message, fix := gatewayapi.Missing(r, ref, ref, fmt.Sprintf("there is no %s", ref)),
		"create it, or name another one"
	if ref.Kind == store.InferencePoolImports.Kind() {
		fix = "have a cluster of the set export a pool of this name (" + upstream.ExportAnnotationKey + ": " +
			upstream.ExportAnnotationVal + "), create the import, or name another one"
	}
	return gatewayapi.Resolution{Ref: store.TargetOf(ref), Reason: "BackendNotFound", Message: message + "; " + fix}
}

func addPool(res *gatewayapi.Resolution, p *model.Pool, share uint32) {
	t := gatewayapi.Target{Cluster: p.Cluster, Share: share, Hops: p.ViaHops(), External: p.External,
		Protocol: p.Protocol}
	res.Clusters = append(res.Clusters, p.Cluster)
	if !p.Picker.Cluster.IsZero() {
		res.Clusters = append(res.Clusters, p.Picker.Cluster)
	}
	if t.Hops {
		res.Hops = append(res.Hops, p.OwnHop())
		res.Clusters = append(res.Clusters, p.Last)
	} else if !p.Picker.Cluster.IsZero() {
		call := p.Picker
		call.Again = p.PicksAgain()
		t.Picker = &call
	}
	if p.PicksAgain() {
		res.Hops = append(res.Hops, p.OwnHop())
		res.Clusters = append(res.Clusters, p.Last)
	}
	res.Targets = append(res.Targets, t)
	addSpills(res, p.Spill)
}

func addSpills(res *gatewayapi.Resolution, list []model.Spill) {
	for _, s := range list {
		res.Hops = append(res.Hops, s.Hop)
		addSpills(res, s.Behind)
		for _, hb := range s.Backends {
			res.Clusters = append(res.Clusters, hb.Cluster)
			if hb.Picker != nil {
				res.Clusters = append(res.Clusters, hb.Picker.Cluster)
			}
		}
	}
}

func finish(res gatewayapi.Resolution) gatewayapi.Resolution {
	slices.SortFunc(res.Clusters, model.ClusterID.Compare)
	res.Clusters = slices.Compact(res.Clusters)
	slices.SortFunc(res.Hops, model.HopID.Compare)
	res.Hops = slices.Compact(res.Hops)
	return res
}
