package fleet

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/xds/fleet/apply"
	"github.com/penstock-project/penstock/xds/fleet/render"
)

// Source is the source of this package's reports: status.Supervisor.
const Source = "supervisor"

// Cluster reads and writes objects. *apply.Cluster implements it.
type Cluster interface {
	Objects(namespace, fleet string) []apply.Object
	// Apply writes an object. known is set if Objects has returned it.
	Apply(ctx context.Context, obj render.Object, applied string, known bool) error
	// Delete deletes an object, or does nothing if it is missing.
	Delete(ctx context.Context, o apply.Object) error
}

// Board receives reports. *status.Board implements it.
type Board interface {
	Set(source string, reports ...report.Report)
	Remove(source string, owners ...report.Ref)
}

// Config configures Fleets.
type Config struct {
	Store *store.Store
	// Follow keeps Cluster up to date until ctx ends, and calls synced when all objects are listed.
	// Only Run needs Cluster, Follow, Settings and Board.
	Cluster Cluster
	Follow  func(ctx context.Context, synced func()) error
	// Settings change with the certificate authority.
	Settings func() render.Settings
	Board    Board
	// ConflictInterval is how often Run checks whether an object without Penstock's label still has
	// a needed name. Default: 10 s.
	ConflictInterval time.Duration
	Log              *slog.Logger
	// OnPanic is called when rendering a Gateway's objects panics. Optional.
	OnPanic func(gateway string, value any, stack []byte)
}

// Gateway is a translated Gateway.
type Gateway struct {
	Name string // "namespace/name"
	// Spec is nil if the Gateway is not accepted.
	Spec *v1alpha1.EnvoyFleetSpec
	// Bound are the proxies' ports, also for ListenerSets and the peer listener.
	Bound []render.Port
}

// Fleets manages the proxies of all Gateways. It is safe for concurrent use.
type Fleets struct {
	cfg Config

	mu       sync.Mutex
	queue    queue
	set      bool
	gateways map[key]*member
	marks    map[apply.Ref]string // Object.Mark when last found up to date
	reports  map[key]report.Report
	orphans  map[key]struct{} // fleets whose Gateway Set did not list
}

type queue = workqueue.TypedRateLimitingInterface[key]

type key struct{ namespace, fleet string }

type member struct {
	Gateway
	object *gatewayv1.Gateway
	// last is the latest non-nil Spec: an invalid change of the Gateway must not deny its proxies.
	last *v1alpha1.EnvoyFleetSpec
}

func New(c Config) *Fleets {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.ConflictInterval = cmp.Or(c.ConflictInterval, 10*time.Second)
	return &Fleets{
		cfg:      c,
		gateways: map[key]*member{}, marks: map[apply.Ref]string{}, reports: map[key]report.Report{},
		orphans: map[key]struct{}{},
	}
}

// Set replaces the list of Gateways, also before or without Run.
func (f *Fleets) Set(gateways []Gateway) {
	view := f.cfg.Store.View()
	next := make(map[key]*member, len(gateways))
	for _, g := range gateways {
		gw, ok := store.Gateways.Get(view, g.Name)
		if !ok {
			continue
		}
		k := key{gw.Namespace, render.Name(gw.Name, string(gw.Spec.GatewayClassName))}
		next[k] = &member{Gateway: g, object: gw, last: g.Spec}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for k, m := range next {
		old := f.gateways[k]
		if old != nil && m.last == nil {
			m.last = old.last
		}
		// Comparing pointers suffices: the store and the translation replace changed objects.
		if old == nil || old.object != m.object || old.Spec != m.Spec || !slices.Equal(old.Bound, m.Bound) {
			f.add(k)
		}
	}
	for k := range f.gateways {
		if next[k] == nil {
			f.add(k)
		}
	}
	for k := range f.orphans {
		f.add(k)
	}
	f.gateways, f.set = next, true
}

// Changed enqueues an object's fleet.
func (f *Fleets) Changed(ref apply.Ref) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(key{ref.Namespace, ref.Name})
}

// Refresh enqueues all fleets after a change of Settings.
func (f *Fleets) Refresh() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for k := range f.gateways {
		f.add(k)
	}
}

// The caller holds f.mu.
func (f *Fleets) add(k key) {
	if f.queue != nil {
		f.queue.Add(k)
	}
}

func (f *Fleets) addAfter(k key, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.queue != nil {
		f.queue.AddAfter(k, wait)
	}
}

const workers = 4

// Run reconciles all fleets until ctx ends. It may be called again.
func (f *Fleets) Run(ctx context.Context) error {
	q := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[key](time.Second,
		time.Minute))
	f.mu.Lock()
	f.queue = q
	clear(f.marks)
	clear(f.reports)
	f.mu.Unlock()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		<-ctx.Done()
		f.mu.Lock()
		f.queue = nil
		f.mu.Unlock()
		q.ShutDown()
		return nil
	})
	synced := make(chan struct{})
	group.Go(func() error { return f.cfg.Follow(ctx, func() { close(synced) }) })
	group.Go(func() error {
		select {
		case <-synced:
		case <-ctx.Done():
			return ctx.Err()
		}
		f.Refresh()
		for range workers {
			group.Go(func() error { return f.work(ctx, q) })
		}
		return nil
	})
	return group.Wait()
}

func (f *Fleets) work(ctx context.Context, q queue) error {
	for {
		k, over := q.Get()
		if over {
			return ctx.Err()
		}
		if err := f.sync(ctx, k); err != nil && ctx.Err() == nil {
			f.cfg.Log.Warn("fleet sync failed; retrying", "gateway", objectid.Join(k.namespace, k.fleet), "error", err)
			q.AddRateLimited(k)
		} else {
			q.Forget(k)
		}
		q.Done(k)
	}
}

func (f *Fleets) member(k key) (m *member, ready bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gateways[k], f.set
}
