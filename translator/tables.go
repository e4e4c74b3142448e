package translator

import (
	"net/netip"
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

// Names of indexes of results. A key's parts are joined by '|', which no name has.
const (
	byPort      = "port"      // gateway|port
	byChain     = "chain"     // gateway|chain
	byHost      = "host"      // gateway|chain|host
	byBlock     = "block"     // gateway|chain|envoy.BlockOf
	bySecret    = "secret"    // gateway|secret
	byCluster   = "cluster"   // cluster
	byGwCluster = "gwcluster" // gateway|cluster
	byGwHop     = "gwhop"     // gateway|hop
	byListener  = "listener"  // gateway|ListenerKey
	byContest   = "contest"   // gateway|ListenerKey, where routes may be in each other's way
	byRoute     = "route"     // store.TargetKey of a route
	byStream    = "stream"    // gateway|chain of the listener|host
	byHop       = "hop"       // hop
	byBackend   = "backend"   // store.TargetKey
	byPool      = "pool"      // model.PoolName
	byPicker    = "picker"    // cluster of an external picker
)

func join(parts ...string) string { return strings.Join(parts, "|") }

// encoded is a row of Envoy resources, or why there are none: an error there is a bug of ours.
type encoded struct {
	resources []*resource.Resource
	err       error
}

func one(r *resource.Resource, err error) encoded {
	if err != nil {
		return encoded{err: err}
	}
	return encoded{resources: []*resource.Resource{r}}
}

func sameResources(a, b encoded) bool {
	return slices.EqualFunc(a.resources, b.resources, (*resource.Resource).Equal) && sameError(a.err, b.err)
}

func sameError(a, b error) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error())
}

// host is a virtual host, as a model for explanations and encoded for its route configuration.
type host struct {
	model   *model.VirtualHost
	encoded *envoy.Encoded // if there is an error, of what stands for it, or nil
	err     error
}

// block is some of the virtual hosts of one route configuration, or why there are none.
type block struct {
	encoded *envoy.Block
	err     error
}

// PickerPool is all that our picker needs to know of a pool.
type PickerPool struct {
	Pool    *model.Pool
	Members []model.Member
}

// tables is everything that is computed, in order: each reads only the store and those before it.
type tables struct {
	cfg Config

	classes     *graph.Table[report.Report]
	gateways    *graph.Table[*model.Gateway]
	pools       *graph.Table[*model.Pool]
	imports     *graph.Table[*model.Import]
	candidates  *graph.Table[*model.Candidate]
	contests    *graph.Table[[]model.Loss]
	attachments *graph.Table[*model.Attachment]

	streams  *graph.Table[model.Stream]
	hosts    *graph.Table[host]
	blocks   *graph.Table[block]
	chains   *graph.Table[model.Chain]
	routes   *graph.Table[encoded] // route configurations
	ports    *graph.Table[encoded] // listeners
	hops     *graph.Table[encoded]
	members  *graph.Table[PickerPool]
	pickers  *graph.Table[model.ExternalPicker]
	clusters *graph.Table[cluster]
	shown    *graph.Table[string]  // SDS name of the certificate that a gateway shows to backends
	loads    *graph.Table[encoded] // cluster load assignments
	served   *graph.Table[encoded] // which gateway has which cluster, with its assignment
	secrets  *graph.Table[encoded] // of listeners and clusters

	gatewayReports, setReports, poolReports, importReports, policyReports, tlsReports, modelReports, serverReports *graph.Table[report.Report]
}

func declare(cfg Config) *tables {
	t := &tables{cfg: cfg}
	t.declareDecisions()
	t.declareResources()
	t.declareReports()
	return t
}

func (t *tables) all() []graph.Declared {
	return []graph.Declared{
		t.classes, t.gateways, t.pools, t.imports, t.candidates, t.contests, t.attachments,
		t.streams, t.hosts, t.chains, t.blocks, t.routes, t.ports, t.hops, t.members, t.pickers, t.clusters, t.shown, t.loads, t.served, t.secrets,
		t.gatewayReports, t.setReports, t.poolReports, t.importReports, t.policyReports, t.tlsReports, t.modelReports, t.serverReports,
	}
}

// declareDecisions: objects to model.
func (t *tables) declareDecisions() {
	gw := t.gatewayConfig()
	t.classes = &graph.Table[report.Report]{
		Name:    "class",
		Sources: []graph.Source{{Table: store.GatewayClasses.Kind(), Index: store.ByID}},
		Compute: func(r *graph.Reader, key string) (report.Report, bool) {
			rep := gatewayapi.Class(r, gw, key)
			if rep == nil {
				return report.Report{}, false
			}
			return *rep, true
		},
	}
	t.gateways = &graph.Table[*model.Gateway]{
		Name:    "gateway",
		Sources: []graph.Source{{Table: store.Gateways.Kind(), Index: store.ByID}},
		Compute: func(r *graph.Reader, key string) (*model.Gateway, bool) {
			g := gatewayapi.Gateway(r, gw, key)
			return g, g != nil
		},
		Indexes: t.gatewayIndexes(),
	}
	t.pools = &graph.Table[*model.Pool]{
		Name:    "pool",
		Sources: []graph.Source{{Table: store.InferencePools.Kind(), Index: store.ByID}},
		Compute: func(r *graph.Reader, key string) (*model.Pool, bool) { return inference.Pool(r, key) },
	}
	t.imports = &graph.Table[*model.Import]{
		Name:    "import",
		Sources: []graph.Source{{Table: store.InferencePoolImports.Kind(), Index: store.ByID}},
		Compute: func(r *graph.Reader, key string) (*model.Import, bool) { return inference.Import(r, key) },
		Indexes: []graph.Index[*model.Import]{{Name: byPool, Keys: func(_ string, imp *model.Import) (keys []string) {
			for _, m := range imp.Members {
				if m.Pool != nil {
					keys = append(keys, m.Pool.Name)
				}
			}
			return keys
		}}},
	}
	t.declareAttachments()
}

// declareAttachments: where routes want to be, who is in whose way, what comes of it.
func (t *tables) declareAttachments() {
	var routes []graph.Source
	for _, table := range []store.Kind{store.HTTPRoutes, store.GRPCRoutes, store.TLSRoutes, store.TCPRoutes} {
		routes = append(routes, graph.Source{Table: table.Kind(), Index: store.ByRoute})
	}
	onListeners := func(c *model.Candidate) (keys []string) {
		for _, parent := range c.Parents {
			for _, p := range parent.Places {
				keys = append(keys, join(p.Gateway, p.Listener))
			}
		}
		return keys
	}
	t.candidates = &graph.Table[*model.Candidate]{
		Name:    "candidate",
		Sources: routes,
		Compute: func(r *graph.Reader, key string) (*model.Candidate, bool) {
			c := gatewayapi.Candidate(r, t.gatewayConfig(), t.gateway(r), key)
			return c, c != nil
		},
		Indexes: []graph.Index[*model.Candidate]{
			{Name: byListener, Keys: func(_ string, c *model.Candidate) []string { return onListeners(c) }},
			// HTTPRoutes alone, of which there may be thousands, are never in each other's way.
			{Name: byContest, Keys: func(_ string, c *model.Candidate) []string {
				if c.Route.Kind == store.HTTPRoutes.Kind() {
					return nil
				}
				return onListeners(c)
			}},
		},
	}
	t.contests = &graph.Table[[]model.Loss]{
		Name:    "contest",
		Sources: []graph.Source{{Table: "candidate", Index: byContest}},
		Compute: func(r *graph.Reader, key string) ([]model.Loss, bool) {
			gateway, listener, _ := strings.Cut(key, "|")
			var all []*model.Candidate
			for _, row := range t.candidates.By(r, byListener, key) {
				all = append(all, row.Value)
			}
			losses := gatewayapi.Contest(gateway, listener, all)
			return losses, len(losses) > 0
		},
		Indexes: []graph.Index[[]model.Loss]{{Name: byRoute, Keys: func(_ string, losses []model.Loss) (keys []string) {
			for _, l := range losses {
				keys = append(keys, store.TargetKey(l.Route.Kind, l.Route.Namespace, l.Route.Name))
			}
			slices.Sort(keys)
			return slices.Compact(keys)
		}}},
	}
	t.attachments = &graph.Table[*model.Attachment]{
		Name:    "attachment",
		Sources: []graph.Source{{Table: "candidate", Index: graph.ByID}},
		Compute: func(r *graph.Reader, key string) (*model.Attachment, bool) {
			c, ok := t.candidates.Get(r, key)
			if !ok {
				return nil, false
			}
			var losses []model.Loss
			for _, row := range t.contests.By(r, byRoute, key) {
				for _, l := range row.Value {
					if l.Route == c.Route {
						losses = append(losses, l)
					}
				}
			}
			return gatewayapi.Attach(r, inference.Backends{Tables: lookup{t}}, c, losses), true
		},
		Indexes: attachmentIndexes(),
	}
}

// gateway looks decided Gateways up.
func (t *tables) gateway(r *graph.Reader) func(key string) (*model.Gateway, bool) {
	return func(key string) (*model.Gateway, bool) { return t.gateways.Get(r, key) }
}

func (t *tables) gatewayConfig() gatewayapi.Config {
	return gatewayapi.Config{Controller: t.cfg.Controller, AnyClass: t.cfg.AnyClass, AnyController: t.cfg.AnyController, BehindService: t.cfg.BehindService, ReservedPort: t.cfg.ReservedPort}
}

// lookup implements inference.Tables on the tables before attachments.
type lookup struct{ *tables }

func (l lookup) Pool(r store.Reader, key string) (*model.Pool, bool) {
	return l.pools.Get(r.(*graph.Reader), key)
}

func (l lookup) Import(r store.Reader, key string) (*model.Import, bool) {
	return l.imports.Get(r.(*graph.Reader), key)
}

func (t *tables) gatewayIndexes() []graph.Index[*model.Gateway] {
	perChain := func(keys func(gw string, p model.Port, c model.Chain) []string) func(string, *model.Gateway) []string {
		return func(gw string, g *model.Gateway) (out []string) {
			for _, p := range gatewayapi.Ports(g) {
				for _, c := range p.Chains {
					out = append(out, keys(gw, p, c)...)
				}
			}
			return out
		}
	}
	perListener := func(keys func(gw string, l *model.Listener) []string) func(string, *model.Gateway) []string {
		return func(gw string, g *model.Gateway) (out []string) {
			for _, l := range g.Listeners {
				if l.Chain != "" {
					out = append(out, keys(gw, l)...)
				}
			}
			return out
		}
	}
	return []graph.Index[*model.Gateway]{
		{Name: byPort, Keys: func(gw string, g *model.Gateway) (keys []string) {
			for _, p := range gatewayapi.Ports(g) {
				keys = append(keys, join(gw, strconv.Itoa(int(p.Number))))
			}
			return keys
		}},
		{Name: byChain, Keys: perChain(func(gw string, _ model.Port, c model.Chain) []string { return []string{join(gw, c.Name)} })},
		{Name: bySecret, Keys: perListener(func(gw string, l *model.Listener) (keys []string) {
			for _, s := range l.Secrets {
				keys = append(keys, join(gw, s))
			}
			if l.Clients != nil {
				keys = append(keys, join(gw, l.Clients.Trust))
			}
			return keys
		})},
		{Name: byHost, Keys: perListener(func(gw string, l *model.Listener) []string {
			if l.Stream() {
				return nil
			}
			return []string{join(gw, l.Chain, l.Hostname)}
		})},
		{Name: byStream, Keys: perListener(func(gw string, l *model.Listener) []string {
			if !l.Stream() {
				return nil
			}
			return []string{join(gw, l.Chain, l.Hostname)}
		})},
		{Name: byCluster, Keys: func(string, *model.Gateway) []string { return t.cfg.ownClusters() }},
		{Name: byGwCluster, Keys: func(gw string, _ *model.Gateway) (keys []string) {
			for _, c := range t.cfg.ownClusters() {
				keys = append(keys, join(gw, c))
			}
			return keys
		}},
	}
}

func attachmentIndexes() []graph.Index[*model.Attachment] {
	perGateway := func(names func(a *model.Attachment) []string) func(string, *model.Attachment) []string {
		return func(_ string, a *model.Attachment) (keys []string) {
			for _, gw := range gatewaysOf(a) {
				for _, n := range names(a) {
					keys = append(keys, join(gw, n))
				}
			}
			return keys
		}
	}
	attached := func(list func(a *model.Attachment) []string) func(string, *model.Attachment) []string {
		return func(_ string, a *model.Attachment) []string {
			if len(a.Places) == 0 {
				return nil
			}
			return list(a)
		}
	}
	clusters := func(a *model.Attachment) []string { return a.Clusters }
	onHosts := func(stream bool) func(string, *model.Attachment) []string {
		return func(_ string, a *model.Attachment) (keys []string) {
			for _, p := range a.Places {
				for _, h := range p.Hosts {
					if p.Stream == stream {
						keys = append(keys, join(p.Gateway, p.Chain, h))
					}
				}
			}
			return keys
		}
	}
	return []graph.Index[*model.Attachment]{
		{Name: byHost, Keys: onHosts(false)},
		{Name: byStream, Keys: onHosts(true)},
		{Name: byListener, Keys: func(_ string, a *model.Attachment) (keys []string) {
			if !gatewayapi.Accepted(a) { // it has places, to answer 500 there, but does not count as attached
				return nil
			}
			for _, p := range a.Places {
				keys = append(keys, join(p.Gateway, p.Listener))
			}
			return keys
		}},
		{Name: byBackend, Keys: func(_ string, a *model.Attachment) []string { return a.Backends }},
		{Name: byCluster, Keys: attached(clusters)},
		{Name: byPicker, Keys: attached(func(a *model.Attachment) (pickers []string) {
			for _, name := range a.Clusters {
				if base, _ := model.BaseCluster(name); model.IsExternalPicker(base) {
					pickers = append(pickers, base)
				}
			}
			return pickers
		})},
		{Name: byHop, Keys: attached(func(a *model.Attachment) []string { return a.Hops })},
		{Name: byGwCluster, Keys: perGateway(clusters)},
		{Name: byGwHop, Keys: perGateway(func(a *model.Attachment) []string { return a.Hops })},
	}
}

func gatewaysOf(a *model.Attachment) []string {
	var out []string
	for _, p := range a.Places {
		if !slices.Contains(out, p.Gateway) {
			out = append(out, p.Gateway)
		}
	}
	slices.Sort(out)
	return out
}

// Config is what translation needs to know beside the objects. It does not change while a Translator lives.
type Config struct {
	// Controller is the controllerName of GatewayClasses that are ours.
	Controller string
	// AnyClass takes Gateways whose GatewayClass does not exist: small folders need none.
	AnyClass bool
	// AnyController takes every Gateway, whatever its class says.
	AnyController bool
	// BehindService says that proxies run behind a Service, which has the addresses that Gateways ask for.
	BehindService bool
	// ReservedPort is one that proxies which we run bind for themselves; 0: none.
	ReservedPort uint16
	// Pickers are the addresses at which our own picker serves, as Envoys reach it.
	Pickers []netip.AddrPort
	// PickerService is the Service behind which our own picker serves, as "namespace/name", and PickerPort the name of its
	// port: Envoys then follow its endpoints, and Pickers does not count.
	PickerService, PickerPort string
	// PickerName is the name in the certificate of our own picker, which then speaks TLS and is shown a key; both are in the
	// store's Authority. Empty: cleartext.
	PickerName string
	// OnDemand are tables of the store that hold only what is read: Output.Wanted asks for it.
	OnDemand []string
	// Slices says that every Service has EndpointSlices, as a cluster makes them. Else one without selects its endpoints itself.
	Slices bool
	// Envoy holds what every listener shares.
	Envoy envoy.Config
	// Collector is the OpenTelemetry collector's address; not valid: no tracing.
	Collector netip.AddrPort
}

func (c Config) ownClusters() []string {
	own := []string{model.OurPicker}
	if c.Collector.IsValid() {
		own = append(own, model.Collector)
	}
	return own
}
