package translator

import (
	"fmt"
	"slices"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/access"
	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
)

type peerTables struct {
	peerPools     *graph.Table[string, peerPool]
	peerListeners *graph.Table[peerKey, encoded]

	peerPoolsByGateway        *graph.Index[string, peerPool, string]
	peerPoolsByCluster        *graph.Index[string, peerPool, model.ClusterID]
	peerPoolsByGatewayCluster *graph.Index[string, peerPool, clusterKey]
	gatewaysByPeer            *graph.Index[string, *model.Gateway, peerKey]
	peerListenersBySecret     *graph.Index[peerKey, encoded, secretKey]
}

type peerPool struct {
	hosts    map[string]*envoy.Encoded // keyed by Gateway
	err      error
	gateways []string
	clusters []model.ClusterID
}

func (t *tables) declarePeers() {
	t.peerPools = graph.Declare(t.engine, graph.Table[string, peerPool]{
		Name:    "peerPools",
		Order:   order,
		Sources: t.stored(store.Exports.Kind()),
		Compute: t.peerPool,
	})
	t.peerPoolsByGateway = graph.NewIndex(t.peerPools, "gateway",
		func(_ string, p peerPool) []string { return p.gateways })
	t.peerPoolsByCluster = graph.NewIndex(t.peerPools, "cluster", func(_ string, p peerPool) []model.ClusterID {
		if len(p.gateways) == 0 {
			return nil
		}
		return p.clusters
	})
	t.peerPoolsByGatewayCluster = graph.NewIndex(t.peerPools, "gatewayCluster",
		func(_ string, p peerPool) (keys []clusterKey) {
			for _, gw := range p.gateways {
				for _, c := range p.clusters {
					keys = append(keys, clusterKey{gw, c})
				}
			}
			return keys
		})
	t.gatewaysByPeer = graph.NewIndex(t.gateways, "peer",
		func(gw string, _ *model.Gateway) []peerKey { return []peerKey{{gw}} })
	t.peerListeners = declareResources(t, graph.Table[peerKey, encoded]{
		Name:    "peerListeners",
		Order:   peerKey.compare,
		Sources: []graph.Source[peerKey]{t.gatewaysByPeer},
		Compute: t.peerListener,
	})
}

func membership(r store.Reader) (*store.Membership, bool) {
	m, ok := store.Memberships.Get(r, store.OwnMembership)
	return m, ok && m.PeerPort > 0 && len(m.Members) > 0
}

func (t *tables) peerPool(r *graph.Reader, key string) (peerPool, bool) {
	e, exported := store.Exports.Get(r, key)
	m, ok := membership(r)
	if !exported || !ok {
		return peerPool{}, false
	}
	p, ok := t.pools.Get(r, key)
	if !ok {
		return peerPool{}, false
	}
	hop, ok := inference.Hop(r, model.HopTo(p.Ref.Kind, p.Ref.Namespace, p.Ref.Name))
	if !ok {
		return peerPool{}, false
	}
	out := peerPool{hosts: map[string]*envoy.Encoded{}}
	var ungated *envoy.Encoded // without policies, the host is equal at all Gateways
	for _, ref := range t.gatewaysNaming(r, p.Ref) {
		gateway := ref.Key()
		out.gateways = append(out.gateways, gateway)
		members, policies := access.Admitted(r, gateway, p.Ref, e.Members)
		host := ungated
		if host == nil || len(policies) > 0 {
			owners := slices.Concat(hop.Owners, policies)
			slices.SortFunc(owners, report.Ref.Compare)
			var err error
			if host, err = envoy.PeerHost(&model.PeerHost{
				Host:    model.PeerAuthority(p.Ref.Namespace, p.Ref.Name, m.Cluster),
				Members: members, Gated: len(policies) > 0, Believed: believed(m, members), Backends: hop.Backends,
				Owners: owners}); err != nil {
				out.err = err
			}
		}
		if len(policies) == 0 {
			ungated = host
		}
		out.hosts[gateway] = host
	}
	for _, b := range hop.Backends {
		out.clusters = append(out.clusters, b.Cluster)
		if b.Picker != nil {
			out.clusters = append(out.clusters, b.Picker.Cluster)
		}
	}
	slices.SortFunc(out.clusters, model.ClusterID.Compare)
	out.clusters = slices.Compact(out.clusters)
	return out, true
}

func believed(m *store.Membership, members []string) map[string][]string {
	out := map[string][]string{}
	for _, member := range m.Members {
		if len(member.Identities) > 0 && slices.Contains(members, member.Name) {
			out[member.Name] = member.Identities
		}
	}
	return out
}

func (t *tables) peerListener(r *graph.Reader, key peerKey) (encoded, bool) {
	g, ok := t.gateways.Get(r, key.gateway)
	m, isMember := membership(r)
	if !ok || !isMember || len(gatewayapi.Ports(g)) == 0 {
		return encoded{}, false
	}
	if _, taken := t.peerPortTaken(r, g); taken {
		return encoded{}, false
	}
	listener := one(envoy.PeerListener(t.cfg.Envoy,
		model.PeerListener{Port: gatewayapi.PeerPort(g, m.PeerPort), Cluster: m.Cluster}))
	if listener.err != nil {
		return listener, true
	}
	var hosts []*envoy.Encoded
	for _, row := range t.peerPoolsByGateway.By(r, key.gateway) {
		if row.Value.err != nil {
			return encoded{err: row.Value.err}, true
		}
		hosts = append(hosts, row.Value.hosts[key.gateway])
	}
	block, err := envoy.NewBlock(hosts)
	if err != nil {
		return encoded{err: err}, true
	}
	routes := one(envoy.RouteConfiguration(model.PeerChain(m.PeerPort), model.Chain{}, block))
	return encoded{append(listener.resources, routes.resources...), routes.err}, true
}

func (t *tables) peerPortTaken(r store.Reader, g *model.Gateway) (f report.Finding, taken bool) {
	m, ok := membership(r)
	if !ok {
		return f, false
	}
	if m.PeerPort == t.cfg.ReservedPort && (g.Fleet == nil || g.Fleet.Mode != v1alpha1.FleetExternal) {
		return report.Finding{
			Severity: report.Error, Owner: g.Ref, Field: "spec.gatewayClassName",
			Problem: fmt.Sprintf(
				"its proxies bind port %d for themselves, the port of the ClusterSet's peerListener: members of "+
					"the cluster set do not reach this Gateway", m.PeerPort),
			Fix: "choose another port in spec.peerListener of the ClusterSet",
		}, true
	}
	for _, l := range g.Listeners {
		if l.Port == m.PeerPort && l.Chain != "" && !l.Datagrams() {
			return report.Finding{
				Severity: report.Error, Owner: g.Ref, Field: "spec.listeners",
				Problem: fmt.Sprintf(
					"listener %s has port %d, the port of the ClusterSet's peerListener: members of the cluster "+
						"set do not reach this Gateway", l.Name, l.Port),
				Fix: "choose another port, here or in spec.peerListener of the ClusterSet",
			}, true
		}
	}
	return f, false
}

func memberSecret(r store.Reader, name string) (*model.Secret, bool) {
	m, ok := store.Memberships.Get(r, store.OwnMembership)
	if !ok {
		return nil, false
	}
	out := &model.Secret{Name: name, Owners: setOf(m)}
	if name == model.MemberCertificate {
		out.Chain, out.Key = m.Chain, m.Key
		return out, len(m.Chain) > 0
	}
	for _, member := range m.Members {
		out.Domains = append(out.Domains, model.TrustDomain{Name: member.Name, Bundle: member.Bundle})
	}
	return out, len(out.Domains) > 0
}

func setOf(m *store.Membership) []report.Ref {
	return []report.Ref{{Group: store.ClusterSets.Group(), Kind: store.ClusterSets.Kind(), Name: m.Set}}
}

func memberTrust(r store.Reader, name, member string) (*model.Secret, bool) {
	m, ok := store.Memberships.Get(r, store.OwnMembership)
	if !ok {
		return nil, false
	}
	i := slices.IndexFunc(m.Members, func(o store.Member) bool { return o.Name == member })
	if i < 0 {
		return nil, false
	}
	return &model.Secret{Name: name, CA: m.Members[i].Bundle, Owners: setOf(m)}, true
}

func peerCluster(imp *model.Import, m *model.ImportMember) *model.Cluster {
	return &model.Cluster{
		Name: m.Cluster, Protocol: model.H2C, Peer: true, Owners: []report.Ref{imp.Ref},
		TLS: inference.PeerTLS(m.Name, m.Peer),
	}
}

func (t *tables) withPeers(r *graph.Reader, key string, list []model.ParentGateway) []model.ParentGateway {
	m, ok := membership(r)
	p, exported := t.peerPools.Get(r, key)
	if !ok || !exported || p.err != nil {
		return list
	}
	for _, gw := range p.gateways {
		g, exists := t.gateways.Get(r, gw)
		if row, listens := t.peerListeners.Get(r, peerKey{gw}); !exists || !listens || row.err != nil {
			continue
		}
		i := slices.IndexFunc(list, func(o model.ParentGateway) bool { return o.Ref == g.Ref })
		if i < 0 {
			i, list = len(list), append(list, model.ParentGateway{Ref: g.Ref, Addresses: g.Addresses})
		}
		list[i].PeerPort = m.PeerPort
	}
	slices.SortFunc(list, func(a, b model.ParentGateway) int { return a.Ref.Compare(b.Ref) })
	return list
}

// PeerPort returns the port of a gateway's listener for other clusters of the cluster set, or 0.
func (t *Translator) PeerPort(gateway string) uint16 {
	r := t.engine.Reader()
	m, ok := membership(r)
	if row, listens := t.tables.peerListeners.Get(r, peerKey{gateway}); !ok || !listens || row.err != nil {
		return 0
	}
	return m.PeerPort
}
