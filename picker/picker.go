package picker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/health"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/schedule"
)

// Picker picks for many pools. Make it with New; it picks as soon as it has pools, and scrapes and expires while Run does.
type Picker struct {
	log       *slog.Logger
	learner   Learner
	trouble   func(pool string, t RelayTrouble)
	elsewhere func(accesslog.Entry)
	tracer    trace.Tracer
	registry  *endpoint.Registry
	ledger    *endpoint.Ledger
	metrics   *metrics
	health    *health.Server

	mu    sync.Mutex // serialises changes; picks do not take it
	pools atomic.Pointer[poolSet]
}

// poolSet is everything that a pick looks up; it is replaced as a whole.
type poolSet struct {
	byName  map[string]*pool
	standby *pool // of gateways that name none; nil if there is no default
}

// pool is one pool's runtime. Replacing its configuration makes a new one, which takes over what must survive (keep).
type pool struct {
	Pool
	options  schedule.Options
	strategy *schedule.Strategy
	never    *schedule.Strategy // the same with nothing ever full; nil if requests are refused
	snapshot *endpoint.Snapshot
	counters *poolMetrics
	history  *history
	remote   *extproc.Remote // of a relayed pool
	standing *standing       // the same
}

// New makes a Picker without pools.
func New(c Config) (*Picker, error) {
	if c.ID == "" {
		c.ID = rand.Text()[:12]
	}
	c.Scrape.Jitter = mathrand.Float64
	p := &Picker{
		log:       c.Log,
		learner:   c.Learner,
		trouble:   c.Trouble,
		elsewhere: c.Elsewhere,
		registry:  endpoint.NewRegistry(c.Scrape),
		ledger:    endpoint.NewLedger(c.ID, cmp.Or(c.LeaseTimeout, 10*time.Minute)),
		health:    health.NewServer(),
	}
	if p.log == nil {
		p.log = slog.Default()
	}
	if c.Tracer != nil {
		p.tracer = c.Tracer.Tracer("github.com/penstock-project/penstock/picker")
	}
	p.pools.Store(&poolSet{byName: map[string]*pool{}})
	var err error
	if p.metrics, err = newMetrics(c.Registerer, p); err != nil {
		return nil, fmt.Errorf("picker metrics: %w", err)
	}
	p.startHealth()
	return p, nil
}

// SetPools replaces all pools in one step and makes the picker ready. A pool that cannot be served (an unknown strategy,
// two of one name) is left out, or keeps its last good configuration, and is named in the error; all others count.
func (p *Picker) SetPools(pools []Pool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.pools.Load()
	next := make(map[string]*pool, len(pools))
	var problems []error
	for _, c := range pools {
		if next[c.Name] != nil {
			problems = append(problems, fmt.Errorf("pool %s is given twice", c.Name))
			continue
		}
		made, err := p.build(c, old.byName[c.Name])
		if err != nil {
			problems = append(problems, err)
			if made = old.byName[c.Name]; made == nil {
				continue
			}
		}
		next[c.Name] = made
	}
	p.swap(next)
	p.ready()
	return errors.Join(problems...)
}

// Update adds or replaces one pool.
func (p *Picker) Update(c Pool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := maps.Clone(p.pools.Load().byName)
	made, err := p.build(c, next[c.Name])
	if err != nil {
		return err
	}
	next[c.Name] = made
	p.swap(next)
	p.ready()
	return nil
}

// Remove forgets a pool; requests for it are answered 503 from now on.
func (p *Picker) Remove(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := maps.Clone(p.pools.Load().byName)
	delete(next, name)
	p.swap(next)
}

// build makes a pool's runtime. The strategy (whose turn it is), the history and the counters outlive a change that does
// not concern them.
func (p *Picker) build(c Pool, old *pool) (*pool, error) {
	c.BodyLimit = cmp.Or(c.BodyLimit, DefaultBodyLimit)
	c.Fallbacks = min(max(c.Fallbacks, 0), 8)
	if c.Relay != nil && len(c.Relay.Pickers) == 0 {
		return nil, fmt.Errorf("pool %s: a relay needs the address of a remote picker", c.Name)
	}
	c.Metrics.Off = c.Metrics.Off || c.Relay != nil || !schedule.UsesMetrics(c.Strategy, c.Full)
	options := schedule.Options{Name: c.Strategy, Weights: c.Weights, Full: c.Full}
	next := &pool{Pool: c, options: options}
	if old != nil {
		next.counters, next.history = old.counters, old.history
	} else {
		next.counters, next.history = p.metrics.pool(c.Name), newHistory()
	}
	if old != nil && old.options.Name == options.Name && old.options.Weights == options.Weights && old.options.Full == options.Full {
		next.strategy = old.strategy
	} else {
		options.Random = mathrand.IntN
		var err error
		if next.strategy, err = schedule.New(options); err != nil {
			return nil, fmt.Errorf("pool %s: %w", c.Name, err)
		}
	}
	if err := next.bear(options); err != nil {
		return nil, err
	}
	if err := next.connect(old); err != nil {
		return nil, fmt.Errorf("pool %s: %w", c.Name, err)
	}
	next.snapshot = p.registry.Snapshot(c.Metrics, c.Endpoints)
	return next, nil
}

// bear makes what picks for requests that must not be refused. See Pool.Spills.
func (pool *pool) bear(o schedule.Options) (err error) {
	if !pool.Spills || o.Full == (schedule.Full{}) {
		return nil
	}
	o.Full, o.Random = schedule.Full{}, mathrand.IntN
	if pool.never, err = schedule.New(o); err != nil {
		return fmt.Errorf("pool %s: %w", pool.Name, err)
	}
	return nil
}

// swap publishes next and releases what the pools before it held. p.mu is held.
func (p *Picker) swap(next map[string]*pool) {
	set := &poolSet{byName: next}
	for _, name := range slices.Sorted(maps.Keys(next)) {
		if next[name].Default {
			set.standby = next[name]
			break
		}
	}
	old := p.pools.Swap(set)
	for name, was := range old.byName {
		now := next[name]
		if now == was {
			continue
		}
		p.registry.Release(was.snapshot)
		if was.remote != nil && (now == nil || now.remote != was.remote) {
			was.remote.Close()
		}
		if was.standing != nil && (now == nil || now.standing != was.standing) {
			p.settle(was)
		}
		if now == nil {
			p.metrics.forget(name)
		}
	}
}

// pool finds the pool that a gateway named; "" means the default pool. nil: there is none.
func (p *Picker) pool(name string) *pool {
	set := p.pools.Load()
	if name == "" {
		return set.standby
	}
	return set.byName[name]
}

// Run scrapes metrics pages and expires leases until ctx ends.
func (p *Picker) Run(ctx context.Context) error {
	defer p.health.Shutdown()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.registry.Run(ctx) })
	group.Go(func() error { return p.ledger.Run(ctx) })
	return group.Wait()
}

// Pools returns the names of all pools, sorted.
func (p *Picker) Pools() []string {
	return slices.Sorted(maps.Keys(p.pools.Load().byName))
}
