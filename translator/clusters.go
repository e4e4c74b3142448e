package translator

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
)

type clusterTables struct {
	externalPickers *graph.Table[model.ClusterID, model.ExternalPicker]
	clusters        *graph.Table[model.ClusterID, cluster]
	assignments     *graph.Table[model.ClusterID, assignment]
	gatewayClusters *graph.Table[clusterKey, encoded]
	secrets         *graph.Table[secretKey, encoded]
	presenters      *graph.Table[secretKey, []report.Ref]
	policyTrusts    *graph.Table[string, *model.Secret]

	assignmentsByOutside    *graph.Index[model.ClusterID, assignment, string]
	gatewayClustersBySecret *graph.Index[clusterKey, encoded, secretKey]
}

type assignment struct {
	encoded
	outside []string
}

type cluster struct {
	model *model.Cluster
	encoded
}

func (t *tables) declareClusters() {
	t.externalPickers = graph.Declare(t.engine, graph.Table[model.ClusterID, model.ExternalPicker]{
		Name:    "externalPickers",
		Order:   model.ClusterID.Compare,
		Sources: []graph.Source[model.ClusterID]{t.attachmentsByPicker, t.attachmentsByRemotePicker},
		Compute: func(r *graph.Reader, id model.ClusterID) (model.ExternalPicker, bool) {
			p, ok := t.externalPicker(r, id, id)
			if id.Kind == model.ImportPickerKind && ok {
				ok = t.besidePicks(r, id, &p)
			}
			return p, ok
		},
	})
	sources := []graph.Source[model.ClusterID]{t.attachmentsByCluster, t.gatewaysByCluster, t.peerPoolsByCluster}
	t.clusters = graph.Declare(t.engine, graph.Table[model.ClusterID, cluster]{
		Name:    "clusters",
		Order:   model.ClusterID.Compare,
		Sources: sources,
		Equal:   func(a, b cluster) bool { return sameResources(a.encoded, b.encoded) },
		Compute: func(r *graph.Reader, id model.ClusterID) (cluster, bool) {
			c, ok := t.cluster(r, id)
			if !ok {
				return cluster{}, false
			}
			return cluster{c, one(envoy.ClusterFor(t.cfg.Envoy, c))}, true
		},
	})
	t.assignments = graph.Declare(t.engine, graph.Table[model.ClusterID, assignment]{
		Name:    "assignments",
		Order:   model.ClusterID.Compare,
		Sources: sources,
		Equal: func(a, b assignment) bool {
			return sameResources(a.encoded, b.encoded) && slices.Equal(a.outside, b.outside)
		},
		Compute: func(r *graph.Reader, id model.ClusterID) (assignment, bool) {
			a, ok := t.assignment(r, id)
			if !ok {
				return assignment{}, false
			}
			return assignment{one(envoy.Endpoints(a)), a.Outside}, true
		},
	})
	t.assignmentsByOutside = graph.NewIndex(t.assignments, "outside",
		func(_ model.ClusterID, a assignment) []string { return a.outside })
	t.gatewayClusters = declareResources(t, graph.Table[clusterKey, encoded]{
		Name:  "gatewayClusters",
		Order: clusterKey.compare,
		Sources: []graph.Source[clusterKey]{t.attachmentsByGatewayCluster, t.gatewaysByOwnCluster,
			t.peerPoolsByGatewayCluster},
		Compute: t.gatewayCluster,
	})
}

// externalPicker uses the client certificate of a Gateway whose routes lead to one of the users.
func (t *tables) externalPicker(r *graph.Reader, id model.ClusterID, users ...model.ClusterID) (model.ExternalPicker,
	bool) {
	c, ok := t.cluster(r, id)
	if !ok {
		return model.ExternalPicker{}, false
	}
	p := model.ExternalPicker{Cluster: id}
	a, _ := t.assignment(r, id)
	for _, e := range a.Endpoints {
		p.Addresses = append(p.Addresses, model.RemoteAddress{Addr: e.Address, Cleartext: c.TLS == nil || e.Cleartext})
	}
	if c.TLS == nil {
		return p, true
	}
	p.TLS = *c.TLS
	p.CA = t.bundle(r, c.TLS)
	if name := cmp.Or(c.TLS.Certificate, t.clientCertificate(r, users)); name != "" {
		if own, ok := t.secret(r, secretKey{secret: name}); ok {
			p.Chain, p.Key = own.Chain, own.Key
		}
	}
	return p, true
}

func (t *tables) bundle(r *graph.Reader, tls *model.UpstreamTLS) []byte {
	if tls.Trust == "" {
		return nil
	}
	if bundle, ok := t.secret(r, secretKey{secret: tls.Trust}); ok {
		return bundle.CA
	}
	return []byte{} // trusts no certificate until the bundle exists
}

func (t *tables) besidePicks(r *graph.Reader, id model.ClusterID, p *model.ExternalPicker) bool {
	imp, i, ok := inference.ImportedCluster(r, id)
	if !ok || imp.Status.Clusters[i].EndpointPicker == nil {
		return false
	}
	picker := imp.Status.Clusters[i].EndpointPicker
	_, m, ok := t.importMember(r, model.ImportCluster(id.Namespace, id.Name, id.Member))
	if !ok || m.Pool == nil {
		return false
	}
	p.Relayed = m.Pool.Relay != nil
	p.Field = fmt.Sprintf("status.clusters[%d].endpointPicker", i)
	owner := store.InferencePoolImports.Ref(imp)
	p.Health, _, _ = inference.PickerPort(r, owner, id.Member, picker.Health)
	p.Metrics, _, _ = inference.PickerPort(r, owner, id.Member, picker.Metrics)
	for _, port := range []*model.PickerPort{&p.Health, &p.Metrics} {
		if port.TLS != nil {
			port.CA = t.bundle(r, port.TLS)
		}
	}
	if named, ok := objectid.ParsePool(picker.Pool); ok {
		p.Pool = named.Name
	}
	return !p.Relayed || p.Health.Port != 0 || p.Metrics.Port != 0
}

// clientCertificate returns the certificate of the first Gateway that has one, and whose routes
// lead to the clusters. It reads routes only if some Gateway has a certificate.
func (t *tables) clientCertificate(r *graph.Reader, users []model.ClusterID) string {
	some := false
	for _, name := range t.gatewayCertificates.All(r) {
		some = some || name != ""
	}
	if !some {
		return ""
	}
	var gateways []string
	for _, id := range users {
		for _, row := range t.attachmentsByCluster.By(r, id) {
			gateways = append(gateways, gatewaysOf(row.Value)...)
		}
	}
	slices.Sort(gateways)
	for _, gw := range slices.Compact(gateways) {
		if name, _ := t.gatewayCertificates.Get(r, gw); name != "" {
			return name
		}
	}
	return ""
}

func (t *tables) gatewayCluster(r *graph.Reader, key clusterKey) (encoded, bool) {
	c, ok := t.clusters.Get(r, key.cluster)
	if !ok {
		return encoded{}, false
	}
	own := c.encoded
	if c.model.TLS != nil && c.model.TLS.Certificate == "" && !c.model.Own {
		if certificate, _ := t.gatewayCertificates.Get(r, key.gateway); certificate != "" {
			own = one(envoy.Cluster(presenting(c.model, certificate)))
		}
	}
	load, _ := t.assignments.Get(r, key.cluster)
	return encoded{append(slices.Clip(own.resources), load.resources...), own.err}, true
}

func presenting(c *model.Cluster, certificate string) *model.Cluster {
	out, tls := *c, *c.TLS
	tls.Certificate = certificate
	out.TLS = &tls
	return &out
}
