package translator

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// declareResources: model to Envoy's resources, one table a kind.
func (t *tables) declareResources() {
	t.declareRouting()
	t.hops = &graph.Table[encoded]{
		Name:    "hop",
		Sources: []graph.Source{{Table: "attachment", Index: byGwHop}},
		Equal:   sameResources,
		Compute: func(r *graph.Reader, key string) (encoded, bool) {
			_, name, _ := strings.Cut(key, "|")
			hop, ok := inference.Hop(r, name)
			if !ok {
				return encoded{}, false
			}
			listener := one(envoy.HopListener(t.cfg.Envoy, *hop))
			routes := one(envoy.HopRoutes(*hop))
			if listener.err != nil {
				return listener, true
			}
			return encoded{append(listener.resources, routes.resources...), routes.err}, true
		},
	}
	t.members = &graph.Table[PickerPool]{
		Name:    "member",
		Sources: []graph.Source{{Table: "pool", Index: graph.ByID}, {Table: "import", Index: byPool}},
		Compute: func(r *graph.Reader, key string) (PickerPool, bool) {
			p, ok := t.poolNamed(r, key)
			if !ok {
				return PickerPool{}, false
			}
			return PickerPool{p, inference.Members(r, p)}, true
		},
	}
	t.pickers = &graph.Table[model.ExternalPicker]{
		Name:    "picker",
		Sources: []graph.Source{{Table: "attachment", Index: byPicker}},
		Compute: func(r *graph.Reader, name string) (model.ExternalPicker, bool) {
			c, ok := t.cluster(r, name)
			if !ok {
				return model.ExternalPicker{}, false
			}
			p := model.ExternalPicker{Cluster: name, TLS: c.TLS != nil}
			if p.TLS {
				p.SNI = c.TLS.SNI
			}
			a, _ := t.assignment(r, name)
			for _, e := range a.Endpoints {
				p.Addresses = append(p.Addresses, e.Address)
			}
			return p, true
		},
	}
	t.declareClusters()
	t.secrets = &graph.Table[encoded]{
		Name:    "secret",
		Sources: []graph.Source{{Table: "gateway", Index: bySecret}, {Table: "served", Index: bySecret}},
		Equal:   sameResources,
		Compute: func(r *graph.Reader, key string) (encoded, bool) {
			_, name, _ := strings.Cut(key, "|")
			secret, ok := secretNamed(r, name)
			if !ok {
				return encoded{}, false
			}
			return one(envoy.Secret(*secret)), true
		},
	}
}

// cluster is a cluster for any gateway, as a model and encoded. Equal bytes are equal models.
type cluster struct {
	model *model.Cluster
	encoded
}

// declareClusters: clusters with their endpoints, and which gateway has which.
func (t *tables) declareClusters() {
	sources := []graph.Source{{Table: "attachment", Index: byCluster}, {Table: "gateway", Index: byCluster}}
	t.clusters = &graph.Table[cluster]{
		Name: "cluster", Sources: sources, Equal: func(a, b cluster) bool { return sameResources(a.encoded, b.encoded) },
		Compute: func(r *graph.Reader, name string) (cluster, bool) {
			c, ok := t.cluster(r, name)
			if !ok {
				return cluster{}, false
			}
			return cluster{c, one(envoy.Cluster(c))}, true
		},
	}
	// A row of its own, so that a Gateway's other changes do not wake all of its clusters.
	t.shown = &graph.Table[string]{
		Name:    "shown",
		Sources: []graph.Source{{Table: "gateway", Index: graph.ByID}},
		Compute: func(r *graph.Reader, gateway string) (string, bool) {
			g, ok := t.gateways.Get(r, gateway)
			return certificateOf(g), ok
		},
	}
	t.loads = &graph.Table[encoded]{
		Name: "assignment", Sources: sources, Equal: sameResources,
		Compute: func(r *graph.Reader, name string) (encoded, bool) {
			a, ok := t.assignment(r, name)
			if !ok {
				return encoded{}, false
			}
			return one(envoy.Endpoints(a)), true
		},
	}
	t.served = &graph.Table[encoded]{
		Name:    "served",
		Sources: []graph.Source{{Table: "attachment", Index: byGwCluster}, {Table: "gateway", Index: byGwCluster}},
		Equal:   sameResources,
		Compute: func(r *graph.Reader, key string) (encoded, bool) {
			gateway, name, _ := strings.Cut(key, "|")
			c, ok := t.clusters.Get(r, name)
			if !ok {
				return encoded{}, false
			}
			own := c.encoded
			if c.model.TLS != nil && !c.model.Own {
				if certificate, _ := t.shown.Get(r, gateway); certificate != "" {
					own = one(envoy.Cluster(showing(c.model, certificate)))
				}
			}
			load, _ := t.loads.Get(r, name)
			return encoded{append(slices.Clip(own.resources), load.resources...), own.err}, true
		},
		Indexes: []graph.Index[encoded]{{Name: bySecret, Keys: func(key string, e encoded) (keys []string) {
			gw, _, _ := strings.Cut(key, "|")
			for _, res := range e.resources {
				for _, ref := range res.Refs {
					if ref.Type == resource.Secret {
						keys = append(keys, join(gw, ref.Name))
					}
				}
			}
			return keys
		}}},
	}
}

// secretNamed finds what the SDS name of a certificate or of CA certificates stands for (model/names.go).
func secretNamed(r *graph.Reader, name string) (*model.Secret, bool) {
	parts := model.SplitName(name)
	if name == model.OwnTrust || name == model.OwnKey {
		a, ok := store.Authorities.Get(r, store.OwnAuthority)
		if !ok {
			return nil, false
		}
		if name == model.OwnKey {
			return &model.Secret{Name: name, Token: []byte(a.Key), Owner: store.Authorities.Ref(a)}, true
		}
		return &model.Secret{Name: name, CA: a.CA, Owner: store.Authorities.Ref(a)}, true
	}
	if parts[0] == "trust" && parts[1] == "policy" {
		return gatewayapi.PolicyTrust(r, parts[2]+"/"+parts[3])
	}
	if parts[0] == "trust" {
		return gatewayapi.ClientTrust(r, parts[2]+"/"+parts[3], uint16(model.PortOf(parts)))
	}
	secret, problem := gatewayapi.Certificate(r, parts[1], parts[2])
	return secret, problem == ""
}

func certificateOf(g *model.Gateway) string {
	if g == nil {
		return ""
	}
	return g.Certificate
}

// showing is a cluster to whose servers a gateway shows its certificate.
func showing(c *model.Cluster, certificate string) *model.Cluster {
	out, tls := *c, *c.TLS
	tls.Certificate = certificate
	out.TLS = &tls
	return &out
}

// declareRouting: listeners, certificates, virtual hosts and the route configurations that they make up.
func (t *tables) declareRouting() {
	t.hosts = &graph.Table[host]{
		Name:    "host",
		Sources: []graph.Source{{Table: "attachment", Index: byHost}, {Table: "gateway", Index: byHost}},
		Compute: t.host,
		Indexes: []graph.Index[host]{{Name: byBlock, Keys: func(_ string, h host) []string {
			return []string{join(h.model.Gateway, h.model.Chain, strconv.Itoa(envoy.BlockOf(h.model.Host)))}
		}}},
	}
	t.streams = &graph.Table[model.Stream]{
		Name:    "stream",
		Sources: []graph.Source{{Table: "attachment", Index: byStream}, {Table: "gateway", Index: byStream}},
		Compute: t.stream,
		Indexes: []graph.Index[model.Stream]{{Name: byPort, Keys: func(key string, _ model.Stream) []string {
			parts := strings.SplitN(key, "|", 3)
			return []string{join(parts[0], gatewayapi.StreamPort(parts[1]))}
		}}},
	}
	// A row of its own, because all listeners have a say in it (421) and a route's change must not ask them again.
	t.chains = &graph.Table[model.Chain]{
		Name:    "chain",
		Sources: []graph.Source{{Table: "gateway", Index: byChain}},
		Compute: t.chain,
	}
	t.declareRouteConfigurations()
	t.ports = &graph.Table[encoded]{
		Name:    "listener",
		Sources: []graph.Source{{Table: "gateway", Index: byPort}},
		Equal:   sameResources,
		Compute: func(r *graph.Reader, key string) (encoded, bool) {
			gw, number, _ := strings.Cut(key, "|")
			g, ok := t.gateways.Get(r, gw)
			if !ok {
				return encoded{}, false
			}
			for _, p := range gatewayapi.Ports(g) {
				if strconv.Itoa(int(p.Number)) == number {
					_, streams := t.streams.Each(r, byPort, key)
					for _, s := range streams {
						p.Streams = append(p.Streams, s)
						p.Owners = append(p.Owners, s.Owners...)
					}
					return one(envoy.Listener(t.cfg.Envoy, p)), true
				}
			}
			return encoded{}, false
		},
	}
}

// declareRouteConfigurations: blocks of virtual hosts, and what they make up.
func (t *tables) declareRouteConfigurations() {
	// Between hosts and their route configuration, so that one change of 5,000 hosts does not look at each of them.
	t.blocks = &graph.Table[block]{
		Name:    "block",
		Sources: []graph.Source{{Table: "host", Index: byBlock}},
		Equal:   func(a, b block) bool { return a.encoded.Equal(b.encoded) && sameError(a.err, b.err) },
		Compute: func(r *graph.Reader, key string) (block, bool) {
			n, rows := t.hosts.Each(r, byBlock, key)
			hosts := make([]*envoy.Encoded, 0, n)
			for _, h := range rows {
				if h.encoded != nil {
					hosts = append(hosts, h.encoded)
				}
			}
			b, err := envoy.NewBlock(hosts)
			return block{b, err}, true
		},
		Indexes: []graph.Index[block]{{Name: byChain, Keys: func(key string, _ block) []string {
			return []string{key[:strings.LastIndexByte(key, '|')]}
		}}},
	}
	t.routes = &graph.Table[encoded]{
		Name:    "route",
		Sources: []graph.Source{{Table: "gateway", Index: byChain}},
		Equal:   sameResources,
		Compute: func(r *graph.Reader, key string) (encoded, bool) {
			_, name, _ := strings.Cut(key, "|")
			chain, ok := t.chains.Get(r, key)
			if !ok {
				return encoded{}, false
			}
			n, rows := t.blocks.Each(r, byChain, key)
			hosts := make([]*envoy.Block, 0, n)
			for _, b := range rows {
				if b.err != nil {
					return encoded{err: b.err}, true
				}
				hosts = append(hosts, b.encoded)
			}
			return one(envoy.RouteConfiguration(name, chain, hosts...)), true
		},
	}
}

func (t *tables) chain(r *graph.Reader, key string) (model.Chain, bool) {
	gateway, name, _ := strings.Cut(key, "|")
	g, ok := t.gateways.Get(r, gateway)
	if !ok {
		return model.Chain{}, false
	}
	for _, p := range gatewayapi.Ports(g) {
		for _, c := range p.Chains {
			if c.Name == name {
				return c, true
			}
		}
	}
	return model.Chain{}, false
}

// stream decides the filter chain of one host of a listener of connections.
func (t *tables) stream(r *graph.Reader, key string) (model.Stream, bool) {
	parts := strings.SplitN(key, "|", 3)
	g, ok := t.gateways.Get(r, parts[0])
	if !ok {
		return model.Stream{}, false
	}
	var attached []*model.Attachment
	for _, row := range t.attachments.By(r, byStream, key) {
		attached = append(attached, row.Value)
	}
	s := gatewayapi.Stream(g, parts[1], parts[2], attached)
	if s == nil {
		return model.Stream{}, false
	}
	return *s, true
}

// host makes one virtual host of the routes attached to it and, behind them, those attached to wider hostnames of the
// same listener: Envoy does not go on to another virtual host when none of its routes match, and Gateway API does.
func (t *tables) host(r *graph.Reader, key string) (host, bool) {
	parts := strings.SplitN(key, "|", 3)
	gw, chain, name := parts[0], parts[1], parts[2]
	g, ok := t.gateways.Get(r, gw)
	if !ok {
		return host{}, false
	}
	var attached []*model.Attachment
	for _, h := range gatewayapi.Covering(name) {
		for _, row := range t.attachments.By(r, byHost, join(gw, chain, h)) {
			if !slices.Contains(attached, row.Value) {
				attached = append(attached, row.Value)
			}
		}
	}
	vh := gatewayapi.VirtualHost(g, chain, name, attached)
	if vh == nil {
		return host{}, false
	}
	enc, err := encodeHost(vh)
	return host{vh, enc, err}, true
}

// encodeHost encodes a virtual host. One that cannot be encoded, which is a bug of ours, answers 500: without it, its
// requests would go where those of a wider hostname go.
func encodeHost(vh *model.VirtualHost) (*envoy.Encoded, error) {
	enc, err := envoy.VirtualHost(vh)
	if err == nil {
		return enc, nil
	}
	shut, also := envoy.VirtualHost(&model.VirtualHost{
		Gateway: vh.Gateway, Chain: vh.Chain, Host: vh.Host, Owners: vh.Owners,
		Routes: []model.Route{{
			Name: "invalid", Match: model.Match{PathKind: model.PathPrefix, Path: "/"},
			Action: &model.Action{Direct: &model.Direct{Status: http.StatusInternalServerError}},
		}},
	})
	return shut, errors.Join(err, also)
}

// poolNamed finds a pool by model.PoolName.
func (t *tables) poolNamed(r *graph.Reader, name string) (*model.Pool, bool) {
	key, member, isImport := strings.Cut(name, "@")
	if !isImport {
		return t.pools.Get(r, key)
	}
	imp, ok := t.imports.Get(r, key)
	if !ok {
		return nil, false
	}
	for _, m := range imp.Members {
		if m.Name == member && m.Pool != nil {
			return m.Pool, true
		}
	}
	return nil, false
}

// declareReports: what is said about each object.
func (t *tables) declareReports() {
	t.gatewayReports = &graph.Table[report.Report]{
		Name:    "gatewayreport",
		Sources: []graph.Source{{Table: store.Gateways.Kind(), Index: store.ByID}},
		Compute: func(r *graph.Reader, key string) (report.Report, bool) {
			g, ok := t.gateways.Get(r, key)
			if !ok {
				if rep := gatewayapi.NotOurs(r, t.gatewayConfig(), key); rep != nil {
					return *rep, true
				}
				return report.Report{}, false
			}
			return gatewayapi.GatewayReport(g, func(listener string) int32 { return t.attached(r, key, listener) }), true
		},
	}
	t.setReports = &graph.Table[report.Report]{
		Name:    "setreport",
		Sources: []graph.Source{{Table: store.ListenerSets.Kind(), Index: store.ByID}},
		Compute: func(r *graph.Reader, key string) (report.Report, bool) {
			rep := gatewayapi.ListenerSetReport(r, t.gatewayConfig(), key, t.gateway(r),
				func(gateway, listener string) int32 { return t.attached(r, gateway, listener) })
			if rep == nil {
				return report.Report{}, false
			}
			return *rep, true
		},
	}
	t.poolReports = &graph.Table[report.Report]{
		Name:    "poolreport",
		Sources: []graph.Source{{Table: "pool", Index: graph.ByID}},
		Compute: func(r *graph.Reader, key string) (report.Report, bool) {
			p, ok := t.pools.Get(r, key)
			if !ok {
				return report.Report{}, false
			}
			var gateways []report.Ref
			for _, row := range t.attachments.By(r, byBackend, store.TargetKey(p.Ref.Kind, p.Ref.Namespace, p.Ref.Name)) {
				for _, gw := range gatewaysOf(row.Value) {
					if g, ok := t.gateways.Get(r, gw); ok && !slices.Contains(gateways, g.Ref) {
						gateways = append(gateways, g.Ref)
					}
				}
			}
			slices.SortFunc(gateways, report.Ref.Compare)
			members, _ := t.members.Get(r, p.Name)
			spilledTo := len(t.attachments.By(r, byHop, p.OwnHop())) > 0
			return inference.PoolReport(p, gateways, spilledTo, len(members.Members)), true
		},
	}
	t.importReports = &graph.Table[report.Report]{
		Name:    "importreport",
		Sources: []graph.Source{{Table: "import", Index: graph.ByID}},
		Compute: func(r *graph.Reader, key string) (report.Report, bool) {
			imp, ok := t.imports.Get(r, key)
			if !ok {
				return report.Report{}, false
			}
			return inference.ImportReport(imp), true
		},
	}
	t.declarePolicyReports()
}

// declarePolicyReports: of policies, and of what describes the servers of pools.
func (t *tables) declarePolicyReports() {
	t.policyReports = &graph.Table[report.Report]{
		Name:    "policyreport",
		Sources: []graph.Source{{Table: store.PoolPolicies.Kind(), Index: store.ByID}},
		Compute: func(r *graph.Reader, key string) (report.Report, bool) {
			return inference.PolicyReport(r, lookup{t}, key)
		},
	}
	t.tlsReports = &graph.Table[report.Report]{
		Name:    "tlsreport",
		Sources: []graph.Source{{Table: store.BackendTLSPolicies.Kind(), Index: store.ByID}},
		Compute: func(r *graph.Reader, key string) (report.Report, bool) {
			return gatewayapi.PolicyReport(r, key, t.policyGateways(r, key), t.policyStreams(r, key), func(target report.Ref) []string { return t.policySections(r, target) })
		},
	}
	t.modelReports = &graph.Table[report.Report]{
		Name:    "modelreport",
		Sources: []graph.Source{{Table: store.InferenceModels.Kind(), Index: store.ByID}},
		Compute: func(r *graph.Reader, key string) (report.Report, bool) {
			return inference.ModelReport(r, lookup{t}, key)
		},
	}
	t.serverReports = &graph.Table[report.Report]{
		Name:    "serverreport",
		Sources: []graph.Source{{Table: store.ModelServers.Kind(), Index: store.ByID}},
		Compute: func(r *graph.Reader, key string) (report.Report, bool) { return inference.ServersReport(r, key) },
	}
}

// attached counts the routes of one listener.
func (t *tables) attached(r *graph.Reader, gateway, listener string) int32 {
	n, _ := t.attachments.Each(r, byListener, join(gateway, listener))
	return int32(n)
}
