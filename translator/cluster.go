package translator

import (
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/translator/services"
)

func (t *tables) cluster(r *graph.Reader, id model.ClusterID) (*model.Cluster, bool) {
	switch id {
	case model.OurPicker, model.OurGate:
		c := &model.Cluster{Name: id, Protocol: model.GRPC, Own: true}
		if id == model.OurGate {
			// Outlier detection (silentGates) ejects an unresponsive process for a second, after
			// two requests that each lost 60 ms. From then on, this health check finds the process
			// unhealthy.
			c.HealthService = gateHealth
		}
		if host := t.cfg.PickerName; host != "" {
			c.Key, c.TLS = model.OwnKey, &model.UpstreamTLS{SNI: host, SANs: []string{host}, Trust: model.OwnTrust}
		}
		return c, true
	case model.Collector:
		return &model.Cluster{Name: id, Protocol: model.GRPC}, true
	}
	switch id.Kind {
	case model.PoolKind, model.ImportKind, model.ParentKind:
		p, owner, ok := t.poolOrParents(r, id)
		if !ok {
			return nil, false
		}
		c := &model.Cluster{Name: id, Protocol: model.HTTP1, Ejects: id.Variant == model.LastVariant,
			Owners: []report.Ref{owner}}
		if p != nil {
			c = poolCluster(p, id)
		}
		policy := gatewayapi.BackendPolicy(r, id)
		_, m, through := t.importMember(r, id)
		if through = through && id.Kind == model.ParentKind; through {
			c.Protocol = m.Protocol
		}
		if through && policy == nil {
			var some bool
			if some, c.Cleartext = inference.RemoteTLS(m.Parents); some {
				c.TLS = &model.UpstreamTLS{Insecure: true, AutoSNI: true}
			}
		}
		if c.Fallback != model.FallbackHops { // hops never leave Envoy, so they need no TLS
			policy.Secure(c)
		}
		return c, true
	case model.ServiceKind, model.GRPCKind, model.TCPKind, model.PassthroughKind:
		svc, ok := services.Of(r, id)
		if !ok {
			return nil, false
		}
		return serviceCluster(svc, id, gatewayapi.BackendPolicy(r, id)), true
	case model.DatagramKind:
		if gw, ok := t.gateways.Get(r, id.Key()); ok && gatewayapi.DatagramListener(gw, id) != nil {
			return &model.Cluster{Name: id, Protocol: model.UDP, Owners: []report.Ref{gw.Ref}}, true
		}
		return nil, false
	case model.MembersKind:
		imp, ok := t.imports.Get(r, id.Key())
		if !ok || imp.Cluster.IsZero() {
			return nil, false
		}
		return &model.Cluster{Name: id, Protocol: model.HTTP1, Fallback: model.FallbackMembers, Hops: true,
			Owners: []report.Ref{imp.Ref}}, true
	case model.PeerKind:
		imp, m, ok := t.importMember(r, id)
		if !ok {
			return nil, false
		}
		c := peerCluster(imp, m)
		c.Name, c.Ejects = id, id.Variant == model.LastVariant
		return c, true
	case model.PickerKind, model.ImportPickerKind:
		c, ok := inference.PickerCluster(r, id)
		if ok && id.Kind == model.PickerKind && frozen(r, id) {
			endCalls(c)
		}
		return c, ok
	}
	return nil, false
}

const gateHealth = "envoy.service.auth.v3.Authorization"

// endCalls makes Envoy end the calls in flight to an unresponsive picker, by changing its cluster.
func endCalls(c *model.Cluster) { c.HealthService = "" }

func poolCluster(p *model.Pool, id model.ClusterID) *model.Cluster {
	c := &model.Cluster{Name: id, Protocol: p.Protocol, Names: p.Picker.Names, Owners: p.Owners}
	last := id.Variant == model.LastVariant
	spills, again := len(p.Spill) > 0 && !last, p.PicksAgain() && !last
	c.Hops = spills || again
	switch {
	case spills && p.ViaHops():
		c.Protocol, c.Fallback = model.HTTP1, model.FallbackHops
	case again:
		c.Fallback = model.FallbackAgain
	case spills && !p.FailOpen:
		c.Fallback = model.FallbackSpill
	case p.FailOpen:
		c.Fallback = model.FallbackPods
	default:
		c.Fallback = model.FallbackNone
	}
	if c.Fallback != model.FallbackHops {
		c.Credential = p.Credential
	}
	return c
}

func serviceCluster(svc *services.Backend, id model.ClusterID, policy *gatewayapi.BackendTLS) *model.Cluster {
	c := &model.Cluster{Name: id, Protocol: model.HTTP1, Owners: []report.Ref{svc.Ref}}
	port := services.Port(svc.Service, id.Port, services.Transport(id))
	if port == nil {
		return c
	}
	switch id.Kind {
	case model.GRPCKind:
		c.Protocol = model.H2C
	case model.TCPKind, model.PassthroughKind:
		c.Protocol = model.TCP
	default:
		if protocol, ok := services.Protocol(port, store.HTTPRoutes.Kind(), policy != nil); ok {
			c.Protocol = protocol
		}
	}
	policy.Secure(c)
	return c
}

func (t *tables) poolOrParents(r *graph.Reader, id model.ClusterID) (*model.Pool, report.Ref, bool) {
	if id.Kind == model.PoolKind {
		p, ok := t.pools.Get(r, id.Key())
		if !ok {
			return nil, report.Ref{}, false
		}
		return p, p.Ref, true
	}
	imp, m, ok := t.importMember(r, id)
	if !ok {
		return nil, report.Ref{}, false
	}
	return m.Pool, imp.Ref, true
}

func (t *tables) importMember(r *graph.Reader, id model.ClusterID) (*model.Import, *model.ImportMember, bool) {
	imp, ok := t.imports.Get(r, id.Key())
	if !ok {
		return nil, nil, false
	}
	for i := range imp.Members {
		if imp.Members[i].Cluster == id.As(model.Plain) {
			return imp, &imp.Members[i], true
		}
	}
	return nil, nil, false
}
