package translator

import (
	"cmp"
	"net/netip"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/translator/services"
)

func (t *tables) assignment(r *graph.Reader, id model.ClusterID) (*model.Assignment, bool) {
	a := &model.Assignment{Cluster: id}
	switch id {
	case model.OurPicker, model.OurGate:
		a.Endpoints = endpoints(t.cfg.Pickers)
		for _, path := range t.cfg.PickerSockets {
			a.Endpoints = append(a.Endpoints, model.Endpoint{Socket: path})
		}
		if key := t.cfg.PickerService; key != "" {
			a.Endpoints = endpoints(services.Endpoints(r, key, t.cfg.PickerPort))
		}
		return a, true
	case model.Collector:
		a.Endpoints = endpoints([]netip.AddrPort{t.cfg.Collector})
		return a, true
	}
	switch id.Kind {
	case model.PoolKind, model.ImportKind, model.ParentKind:
		return a, t.assignPool(r, a)
	case model.DatagramKind:
		return a, t.assignDatagrams(r, a)
	case model.ServiceKind, model.GRPCKind, model.TCPKind, model.PassthroughKind, model.PickerKind, model.UDPKind:
		svc, ok := services.Of(r, id)
		if !ok {
			return nil, false
		}
		a.Owners = []report.Ref{svc.Ref}
		if gatewayapi.BackendPolicy(r, id).Trusts() {
			var list []netip.AddrPort
			list, a.Outside = svc.Addresses(r, id.Port, services.Transport(id), t.cfg.Slices)
			a.Endpoints = endpoints(list)
		}
		if id.Kind == model.PickerKind && t.passedBy(r, id) {
			markUnhealthy(a)
		}
		return a, true
	case model.MembersKind:
		imp, ok := t.imports.Get(r, id.Key())
		if ok && id.Variant == model.LastVariant {
			imp, ok = inference.SpilledTo(r, id.Key())
		}
		if !ok || imp.Cluster.IsZero() {
			return nil, false
		}
		a.Owners, a.Endpoints = []report.Ref{imp.Ref}, memberHops(imp, t.hopWeights(r, imp))
		return a, true
	case model.PeerKind:
		imp, m, ok := t.importMember(r, id)
		if !ok {
			return nil, false
		}
		a.Owners, a.Endpoints = []report.Ref{imp.Ref}, remoteEndpoints(m.Parents, true)
		return a, true
	case model.ImportPickerKind:
		obj, i, ok := inference.ImportedCluster(r, id)
		if !ok || obj.Status.Clusters[i].EndpointPicker == nil {
			return nil, false
		}
		a.Owners = []report.Ref{store.InferencePoolImports.Ref(obj)}
		if gatewayapi.BackendPolicy(r, id).Trusts() {
			a.Endpoints = remoteEndpoints(inference.Dialable(r, obj, &obj.Status.Clusters[i]), false)
		}
		if lost(r, id) && obj.Status.Clusters[i].FailureMode == "FailOpen" {
			markUnhealthy(a)
		}
		return a, true
	}
	return nil, false
}

func lost(r *graph.Reader, id model.ClusterID) bool {
	d, ok := store.Dialects.Get(r, id.As(model.Plain).String())
	return ok && d.Lost
}

// markUnhealthy keeps Envoy from calling a picker. Once a call has begun, Envoy cannot bypass a
// picker that reads bodies as a stream.
func markUnhealthy(a *model.Assignment) {
	for i := range a.Endpoints {
		a.Endpoints[i].Unhealthy = true
	}
}

func frozen(r *graph.Reader, id model.ClusterID) bool {
	d, ok := store.Dialects.Get(r, id.As(model.Plain).String())
	return ok && d.Frozen
}

func (t *tables) passedBy(r *graph.Reader, id model.ClusterID) bool {
	if frozen(r, id) {
		return true
	}
	if !lost(r, id) {
		return false
	}
	for _, row := range t.poolsByPicker.By(r, id.As(model.Plain)) {
		if !row.Value.FailOpen {
			return false
		}
	}
	return true
}

func (t *tables) assignPool(r *graph.Reader, a *model.Assignment) bool {
	id := a.Cluster
	p, owner, ok := t.poolOrParents(r, id)
	if !ok {
		return false
	}
	a.Owners = []report.Ref{owner}
	trusts, last := gatewayapi.BackendPolicy(r, id).Trusts(), id.Variant == model.LastVariant
	if p == nil {
		if _, m, _ := t.importMember(r, id); trusts {
			a.Endpoints = remoteEndpoints(m.Parents, gatewayapi.BackendPolicy(r, id) != nil)
		}
		return true
	}
	if !last && p.ViaHops() {
		one := *p
		one.Cluster = id
		a.Endpoints = hopsOf(&one)
		return true
	}
	members, _ := t.members.Get(r, p.Name)
	var draining []model.Endpoint
	for _, m := range members.Members {
		switch e := (model.Endpoint{Address: m.Address}); {
		case !trusts || p.Credential != nil && p.Credential.Missing:
		case m.Draining:
			draining = append(draining, e)
		default:
			a.Endpoints = append(a.Endpoints, e)
		}
	}
	// A pick from before the drain may reach Envoy after this assignment. If all servers drain,
	// Envoy still needs the picked one. Otherwise one of the remaining servers takes the request.
	if len(a.Endpoints) == 0 && (last || !p.PicksAgain() && len(p.Spill) == 0) {
		a.Endpoints = draining
	}
	if last {
		return true
	}
	if p.PicksAgain() {
		a.Endpoints = append(a.Endpoints, model.Endpoint{Hop: p.OwnHop()})
	}
	for i, s := range p.Spill {
		a.Endpoints = append(a.Endpoints, model.Endpoint{Hop: s.Hop, Later: i > 0})
	}
	return true
}

func hopsOf(p *model.Pool) []model.Endpoint {
	out := []model.Endpoint{{Hop: p.OwnHop()}}
	for i, s := range p.Spill {
		out = append(out, model.Endpoint{Hop: s.Hop, Priority: uint32(i + 1)})
	}
	return out
}

func memberHops(imp *model.Import, weights []uint32) (out []model.Endpoint) {
	next := uint32(0)
	for i := range imp.Members {
		if m := &imp.Members[i]; m.Takes() {
			out, next = append(out, model.Endpoint{Hop: imp.Hop(m), Weight: weights[i], Priority: m.Priority}),
				max(next, m.Priority+1)
		}
	}
	for _, s := range imp.Spill {
		if out = append(out, model.Endpoint{Hop: s.Hop, Priority: next}); imp.Order.InOrder {
			next++
		}
	}
	return out
}

func (t *tables) hopWeights(r *graph.Reader, imp *model.Import) []uint32 {
	weights := make([]uint32, len(imp.Members))
	for i := range imp.Members {
		weights[i] = imp.Members[i].Share
	}
	if imp.Choice == nil {
		return weights
	}
	servers, known, sum := make([]uint32, len(weights)), uint32(0), uint32(0)
	for i := range imp.Members {
		m := &imp.Members[i]
		id := objectid.Target{Pool: objectid.Pool{Namespace: imp.Ref.Namespace, Name: imp.Ref.Name}, Member: m.Name}
		if m.Local {
			id.Member = ""
		}
		list, _ := t.members.Get(r, id)
		for _, s := range list.Members {
			if !s.Draining {
				servers[i]++
			}
		}
		if m.Takes() && servers[i] > 0 {
			known, sum = known+1, sum+servers[i]
		}
	}
	if known == 0 {
		return weights
	}
	for i := range servers {
		weights[i] = cmp.Or(servers[i], max(sum/known, 1))
	}
	return weights
}

func endpoints(addrs []netip.AddrPort) []model.Endpoint {
	out := make([]model.Endpoint, len(addrs))
	for i, a := range addrs {
		out[i].Address = a
	}
	return out
}

func remoteEndpoints(addrs []model.RemoteAddress, secured bool) []model.Endpoint {
	_, mixed := inference.RemoteTLS(addrs)
	out := make([]model.Endpoint, len(addrs))
	for i, a := range addrs {
		out[i] = model.Endpoint{Address: a.Addr, Cleartext: mixed && a.Cleartext && !secured}
	}
	return out
}
