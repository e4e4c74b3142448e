package picker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/health"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/flow"
	"github.com/penstock-project/penstock/picker/kvevents"
	"github.com/penstock-project/penstock/picker/liveness"
	"github.com/penstock-project/penstock/picker/models"
	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/picker/processor"
	"github.com/penstock-project/penstock/picker/schedule"
	"github.com/penstock-project/penstock/picker/scoring"
	"github.com/penstock-project/penstock/picker/tokenize"
	"github.com/penstock-project/penstock/picker/upload"
)

// Picker chooses model servers for requests to many pools.
type Picker struct {
	config   Config
	stages   []stage
	gate     gate
	pools    pools
	wire     wire
	prompts  prompts
	asks     asks
	others   others
	watch    watch
	registry *endpoint.Registry
	leases   *endpoint.Leases
	records  records
	metrics  *metrics
	tracer   trace.Tracer
	health   *health.Server
}

type asks struct {
	models   *models.Lister
	liveness *liveness.Checker
	runs     atomic.Bool
}

type others struct {
	nowhere  *endpoint.Load // counts requests that no endpoint serves
	imported atomic.Int64
}

type pools struct {
	mu      sync.Mutex // serializes changes; picks do not lock
	leaving bool
	now     atomic.Pointer[poolSet]
}

type wire struct {
	bodies, imports *extproc.Bodies // imports bounds the bodies in calls from other clusters
	calls           *extproc.Calls
	uploads         upload.Ledger
}

type prompts struct {
	prefixes *prefix.Index
	events   *kvevents.Subscriber
	renderer *tokenize.Renderer
}

type records struct {
	notes notes
	usage usage
}

type poolSet struct {
	byName    map[string]*pool
	byDefault *pool         // may be nil
	replaced  chan struct{} // closed when a newer poolSet is current
}

// pool is one version of a pool's configuration. A change creates a new pool, which takes over the
// old pool's counters, history and sessions.
type pool struct {
	Pool
	Name     string // text of ID
	target   target
	use      *use // nil if the pool has no model servers of its own
	accepts  bool // true if a server is not draining, or if the pool has no model servers of its own
	options  schedule.Options
	strategy *schedule.Strategy
	roles    roles
	shadow   *schedule.Strategy
	// unlimited is the strategy without thresholds, for requests to a full pool; nil if a full pool
	// rejects requests.
	unlimited   *schedule.Strategy
	snapshot    *endpoint.Snapshot
	events      *kvevents.Subscription
	loads       *kvevents.LoadSubscription
	rendering   *tokenize.Pool
	counters    *poolMetrics
	history     *history
	subsets     subsets
	rules       *modelRules
	sessions    *schedule.Sessions[netip.AddrPort] // may be nil
	stays       *schedule.Sessions[string]         // nil unless Clusters.Sessions
	responses   *responses
	queue       *flow.Queue
	slots       *endpoint.Slots
	remote      *extproc.Remote
	relayHealth *relayHealth
	scorers     []*scoring.Client // nil for a scorer without an address
	processor   *processor.Client
	holders     *models.Holders
	storm       *storm
}

// leaseTimeout is how long a lease lasts after its last report, in case its Envoy dies. Envoys
// report each request every 2 s (translator/envoy, renewalInterval), at most 100 ms late. So one
// report may be lost.
const leaseTimeout = 4300 * time.Millisecond

// New returns a Picker without pools.
func New(c Config) (*Picker, error) {
	c = c.withDefaults()
	prefixes := prefix.New(prefix.Config{Seed: mathrand.Uint64()})
	never := c.Addresses.Never
	var read func(netip.AddrPort, uint64, endpoint.Reading)
	if c.Sharing != nil {
		read = c.Sharing.Page
	}
	p := &Picker{
		config: c,
		stages: stages(),
		gate:   gate{began: time.Now()},
		wire: wire{bodies: extproc.NewBodies(c.HeldBodies),
			imports: extproc.NewBodies(cmp.Or(c.HeldBodies, extproc.DefaultBodies) / 4), calls: extproc.NewCalls(0)},
		prompts: prompts{prefixes: prefixes, renderer: tokenize.New(tokenize.Config{})},
		registry: endpoint.NewRegistry(endpoint.Config{
			Never: never, Read: read, Prefixes: prefixes, Jitter: mathrand.Float64, OnPanic: c.Troubles.Panicked,
		}),
		asks: asks{
			models:   models.New(models.Config{Never: never, OnPanic: c.Troubles.Panicked}),
			liveness: liveness.New(liveness.Config{Never: never}),
		},
		leases: endpoint.NewLeases(rand.Text()[:12], leaseTimeout), // random: other pickers receive the same access log
		others: others{nowhere: new(endpoint.Load)},
		health: health.NewServer(),
	}
	p.prompts.events = kvevents.New(kvevents.Config{
		Prefixes: prefixes, Listener: c.KVEvents, Load: p.pushed, Never: never, Log: c.Log,
		OnPanic: c.Troubles.Panicked,
	})
	if c.Tracer != nil {
		p.tracer = c.Tracer.Tracer("github.com/penstock-project/penstock/picker")
	}
	p.pools.now.Store(&poolSet{byName: map[string]*pool{}, replaced: make(chan struct{})})
	var err error
	if p.metrics, err = newMetrics(c.Registerer, p); err != nil {
		return nil, fmt.Errorf("picker metrics: %w", err)
	}
	p.startHealth()
	return p, nil
}

// SetPools replaces all pools in one step and makes the picker ready. The error lists invalid
// pools, which keep their last valid configuration or are omitted.
func (p *Picker) SetPools(pools []Pool) error {
	p.pools.mu.Lock()
	defer p.pools.mu.Unlock()
	old := p.pools.now.Load()
	next := make(map[string]*pool, len(pools))
	var problems []error
	for _, c := range pools {
		name := c.ID.String()
		if next[name] != nil {
			problems = append(problems, fmt.Errorf("pool %s is given twice", name))
			continue
		}
		made, err := p.build(c, old.byName[name])
		if err != nil {
			problems = append(problems, err)
			if made = old.byName[name]; made == nil {
				continue
			}
		}
		next[name] = made
	}
	changed := maps.Clone(old.byName)
	maps.Copy(changed, next)
	p.swap(next, slices.Collect(maps.Keys(changed))...)
	p.ready()
	return errors.Join(problems...)
}

// Update adds or replaces a pool.
func (p *Picker) Update(c Pool) error {
	p.pools.mu.Lock()
	defer p.pools.mu.Unlock()
	next, name := maps.Clone(p.pools.now.Load().byName), c.ID.String()
	made, err := p.build(c, next[name])
	if err != nil {
		return err
	}
	next[name] = made
	p.swap(next, name)
	p.ready()
	return nil
}

// Remove removes a pool.
func (p *Picker) Remove(id objectid.Target) {
	p.pools.mu.Lock()
	defer p.pools.mu.Unlock()
	next, name := maps.Clone(p.pools.now.Load().byName), id.String()
	delete(next, name)
	p.swap(next, name)
	if p.config.Protocol.OnePool {
		p.ready()
	}
}

// build makes a pool from its configuration. It reuses the old pool's strategy (with its
// round-robin position), history and counters if their configuration is unchanged.
func (p *Picker) build(c Pool, old *pool) (next *pool, err error) {
	defer func() {
		if err != nil {
			next, err = nil, fmt.Errorf("pool %s: %w", c.ID, err)
		}
	}()
	if c.Relay != nil && len(c.Relay.Pickers) == 0 {
		return nil, errors.New("a relay needs the address of a remote picker")
	}
	c.setDefaults(old)
	options := schedule.Options{Name: c.Strategy, Full: c.Full, Hashing: c.Hashing, ShedAfter: c.ShedAfter,
		Profile: c.Plugins}
	// ShedAfter and FlowControl decide themselves when to shed sheddable requests.
	options.ShedFull = c.ShedAfter == 0 && c.FlowControl == nil
	c.Metrics.Off = c.Metrics.Off || c.Relay != nil ||
		!schedule.UsesMetrics(&options) && c.FlowControl == nil &&
			(c.Shadow == "" || !schedule.UsesMetrics(&schedule.Options{Name: c.Shadow}))
	next = &pool{Pool: c, Name: c.ID.String(), options: options}
	p.inherit(next, old)
	options.Random, options.Prefixes = mathrand.Uint64, p.prompts.prefixes
	if old != nil && old.options.Equal(&options) {
		next.strategy = old.strategy
	} else if next.strategy, err = schedule.New(options); err != nil {
		return nil, err
	}
	if err := next.addUnlimited(options, old); err != nil {
		return nil, err
	}
	if err := next.addStages(options, old); err != nil {
		return nil, err
	}
	if err := next.addShadow(options, old); err != nil {
		return nil, err
	}
	if err := next.connectScorers(old); err != nil {
		return nil, err
	}
	if err := next.connectProcessor(old, p.config.Log); err != nil {
		return nil, err
	}
	if err := next.connect(old); err != nil {
		return nil, err
	}
	next.target = next.targetOf()
	next.snapshot = p.registry.Snapshot(c.Metrics, next.slots, c.Endpoints)
	next.snapshot.FirstUse = func() { p.watch.begin(next.Name) }
	next.setUse(old)
	if c.LoadPort != 0 && !c.Metrics.Off {
		next.loads = p.prompts.events.SubscribeLoads(loadSources(c.LoadPort, next.snapshot.Endpoints))
	}
	p.control(next, old)
	if c.KVEvents != nil {
		next.events = p.prompts.events.Subscribe(c.KVEvents.sources(next.snapshot.Endpoints))
	}
	next.setHolders()
	for _, s := range []*schedule.Strategy{next.strategy, next.shadow, next.unlimited} {
		if s != nil {
			s.Prepare(next.snapshot.Endpoints)
		}
	}
	return next, nil
}

func (c *Pool) setDefaults(old *pool) {
	c.BodyLimit = cmp.Or(c.BodyLimit, DefaultBodyLimit)
	c.Fallbacks = min(max(c.Fallbacks, 0), 8)
	if c.Strategy == schedule.Plugins && c.Plugins == nil {
		if c.Strategy = "load"; old != nil {
			c.Strategy, c.Plugins, c.Scorers = old.Strategy, old.Plugins, old.Scorers
			if c.FlowControl == nil { // the old profile may have set the old FlowControl
				c.FlowControl = old.FlowControl
			}
		}
	}
	if c.UserMessages = cmp.Or(c.UserMessages, DefaultUserMessages); !schedule.UsesSpread(c.Strategy) {
		c.UserMessages = 0
	}
	c.SessionTTL, c.SessionCookie = cmp.Or(c.SessionTTL, DefaultSessionTTL),
		cmp.Or(c.SessionCookie, DefaultSessionCookie)
}

func (p *Picker) inherit(next, old *pool) {
	if old == nil {
		old = &pool{counters: p.metrics.pool(next.Name), history: new(history), holders: p.asks.models.Holders(),
			storm: new(storm), rules: newModelRules(next.Models, mathrand.Uint64)}
		old.Models = next.Models
	}
	next.counters, next.history, next.holders, next.storm = old.counters, old.history, old.holders, old.storm
	if next.rendering = old.rendering; next.rendering == nil || !old.Metrics.Protocol.Same(next.Metrics.Protocol) {
		next.rendering = &tokenize.Pool{Protocol: next.Metrics.Protocol}
	}
	if next.Models.equal(old.Models) {
		next.Models, next.rules = old.Models, old.rules
	} else {
		next.rules = newModelRules(next.Models, mathrand.Uint64)
	}
	if next.Clusters == nil && next.Relay == nil && !next.Gateways {
		next.sessions = orNew(old.sessions)
	}
	if next.Clusters != nil && next.Clusters.Sessions {
		next.stays = orNew(old.stays)
	}
	if next.Responses {
		next.responses = orNew(old.responses)
	}
	if next.Full.InFlight > 0 || schedule.UsesSpread(next.Strategy) {
		next.slots = orNew(old.slots) // picks of the old pool may wait in its slots
	}
}

func orNew[T any](old *T) *T {
	if old == nil {
		return new(T)
	}
	return old
}

func (pool *pool) addUnlimited(o schedule.Options, old *pool) (err error) {
	if !pool.Spills || o.Full == (schedule.Full{}) {
		return nil
	}
	if old != nil && old.unlimited != nil && old.options.Equal(&o) {
		pool.unlimited = old.unlimited
		return nil
	}
	o.Full = schedule.Full{}
	pool.unlimited, err = schedule.New(o)
	return err
}

// swap makes the pools in next current, and releases the replaced and removed pools. changed names
// all pools that were added, replaced or removed. The caller holds p.pools.mu.
func (p *Picker) swap(next map[string]*pool, changed ...string) {
	old := p.pools.now.Load()
	set := &poolSet{byName: next, byDefault: old.byDefault, replaced: make(chan struct{})}
	defer close(old.replaced)
	isDefault := func(pool *pool) bool { return pool != nil && pool.Default }
	if slices.ContainsFunc(changed, func(name string) bool {
		return isDefault(old.byName[name]) || isDefault(next[name])
	}) {
		set.byDefault = nil
		for name, pool := range next {
			if pool.Default && (set.byDefault == nil || name < set.byDefault.Name) {
				set.byDefault = pool
			}
		}
	}
	p.pools.now.Store(set)
	size := historyOf(len(next))
	if size != historyOf(len(old.byName)) {
		for _, pool := range next {
			pool.history.resize(size)
		}
	}
	for _, name := range changed {
		before, now := old.byName[name], next[name]
		if before == nil && now != nil {
			now.history.resize(size)
		}
		p.setClusters(before, now)
		if before == nil || now == before {
			continue
		}
		p.registry.Release(before.snapshot)
		before.events.Release()
		before.loads.Release()
		before.closeScorers(now)
		before.closeProcessor(now)
		if before.remote != nil && (now == nil || now.remote != before.remote) {
			before.remote.Close()
		}
		if before.relayHealth != nil && (now == nil || now.relayHealth != before.relayHealth) {
			p.resolveRelay(before)
		}
		if before.queue != nil && (now == nil || now.queue == nil) {
			before.letGo(now)
		}
		if now == nil {
			before.history.resize(0)
			p.metrics.remove(name)
			p.records.usage.remove(name)
			p.asks.models.Forget(name)
		}
	}
}

// pool finds a pool by its name; "" means the default pool.
func (p *Picker) pool(name string) *pool {
	set := p.pools.now.Load()
	if name == "" {
		return set.byDefault
	}
	return set.byName[name]
}

// Run scrapes metrics pages and expires leases until ctx ends.
func (p *Picker) Run(ctx context.Context) error {
	defer p.health.Shutdown()
	p.asks.runs.Store(true)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.registry.Run(ctx) })
	group.Go(func() error { return p.leases.Run(ctx) })
	group.Go(func() error { return p.watchSilence(ctx) })
	if _, none := p.config.Troubles.(discarded); !none {
		group.Go(func() error { return p.watchServers(ctx) })
	}
	group.Go(func() error { return p.prompts.prefixes.Run(ctx) })
	if p.config.Recording != nil {
		group.Go(func() error { return p.config.Recording.Run(ctx) })
	}
	group.Go(func() error { return p.prompts.events.Run(ctx) })
	return group.Wait()
}

// Pools returns the sorted names of all pools.
func (p *Picker) Pools() []string {
	return slices.Sorted(maps.Keys(p.pools.now.Load().byName))
}
