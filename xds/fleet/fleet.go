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

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/xds/fleet/apply"
	"github.com/penstock-project/penstock/xds/fleet/render"
)

// Source is the name under which reports go to the board: status.Supervisor.
const Source = "supervisor"

// Cluster is where the objects are. *cluster.Cluster is one.
type Cluster interface {
	// Objects are those of one fleet that the API server has.
	Objects(namespace, fleet string) []apply.Object
	// Apply brings one into the wanted form, whose hash is applied; known says that it was seen.
	Apply(ctx context.Context, obj render.Object, applied string, known bool) error
	// Delete deletes one; that it is gone already is no error.
	Delete(ctx context.Context, o apply.Object) error
}

// Board takes reports. *status.Board is one.
type Board interface {
	Set(source string, reports ...report.Report)
	Remove(source string, owners ...report.Ref)
}

// Config is what Fleets need.
type Config struct {
	// Store has the Gateways. Required.
	Store *store.Store
	// Cluster is where their objects are, and Follow keeps it up to date until ctx ends, calling synced when all objects
	// have been listed ((*cluster.Cluster).Run). Only Run needs them.
	Cluster Cluster
	Follow  func(ctx context.Context, synced func()) error
	// Settings are what all fleets share; asked for each time, because the certificate authority changes. Only Run needs them.
	Settings func() render.Settings
	// Board is told of addresses and of what went wrong. Only Run needs it.
	Board Board
	// Foreign is how soon it is looked whether an object of somebody else, which has the name of one of ours, is still there.
	// Default: 10 s.
	Foreign time.Duration
	Log     *slog.Logger
}

// Gateway is a Gateway of ours, as translation sees it.
type Gateway struct {
	Name string // "namespace/name"
	// Spec is how its proxies run; nil if the Gateway is not accepted.
	Spec *v1alpha1.EnvoyFleetSpec
	// Bound are the ports that its proxies bind, those of ListenerSets included. Those of its own listeners need not be here.
	Bound []render.Port
}

// Fleets are the proxies of all Gateways. Safe for use by many.
type Fleets struct {
	cfg Config

	mu       sync.Mutex
	queue    queue                 // nil while Run does not run
	set      bool                  // Set was called
	gateways map[key]*member       // by the fleet's name
	marks    map[apply.Ref]string  // of what was applied or found right
	said     map[key]report.Report // newest of each
	orphans  map[key]struct{}      // fleets with objects whose Gateway is not ours now
}

type queue = workqueue.TypedRateLimitingInterface[key]

// key names a fleet: the namespace and render.Name.
type key struct{ namespace, fleet string }

// member is what is known of one Gateway's proxies.
type member struct {
	Gateway
	object *gatewayv1.Gateway
	// last is the newest Spec that was not nil: who may attach does not depend on the Gateway's newest mistake.
	last *v1alpha1.EnvoyFleetSpec
}

// New makes Fleets without Gateways.
func New(c Config) *Fleets {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Foreign = cmp.Or(c.Foreign, 10*time.Second)
	return &Fleets{
		cfg:      c,
		gateways: map[key]*member{}, marks: map[apply.Ref]string{}, said: map[key]report.Report{}, orphans: map[key]struct{}{},
	}
}

// Set says which Gateways there are. It may be called before Run and on replicas that never run.
func (f *Fleets) Set(gateways []Gateway) {
	view := f.cfg.Store.View()
	next := make(map[key]*member, len(gateways))
	for _, g := range gateways {
		gw, ok := store.Gateways.Get(view, g.Name)
		if !ok {
			continue // gone meanwhile
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
		// Objects of the store and rows of translation are replaced when they change, and only then.
		if old == nil || old.object != m.object || old.Spec != m.Spec || !slices.Equal(old.Bound, m.Bound) {
			f.add(k)
		}
	}
	for k := range f.gateways {
		if next[k] == nil {
			f.add(k)
		}
	}
	for k := range f.orphans { // there may be more reason to end them now
		f.add(k)
	}
	f.gateways, f.set = next, true
}

// Changed is to be called with each object of a fleet that changed in the cluster.
func (f *Fleets) Changed(ref apply.Ref) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(key{ref.Namespace, ref.Name})
}

// Refresh looks at all fleets again: Settings have changed.
func (f *Fleets) Refresh() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for k := range f.gateways {
		f.add(k)
	}
}

// add has a fleet looked at, if anybody looks. Called with mu held.
func (f *Fleets) add(k key) {
	if f.queue != nil {
		f.queue.Add(k)
	}
}

// addAfter has a fleet looked at later, if anybody looks then.
func (f *Fleets) addAfter(k key, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.queue != nil {
		f.queue.AddAfter(k, wait)
	}
}

// workers is how many fleets are brought up to date at the same time.
const workers = 4

// Run keeps the objects of all fleets until ctx ends. It may be called again when it has returned: another replica led
// meanwhile.
func (f *Fleets) Run(ctx context.Context) error {
	q := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[key](time.Second, time.Minute))
	f.mu.Lock()
	f.queue = q
	clear(f.marks)
	clear(f.said)
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
			f.cfg.Log.Warn("fleet is not as it should be; trying again", "gateway", k.namespace+"/"+k.fleet, "error", err)
			q.AddRateLimited(k)
		} else {
			q.Forget(k)
		}
		q.Done(k)
	}
}

// member finds the Gateway of a fleet. ready is false before Set.
func (f *Fleets) member(k key) (m *member, ready bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gateways[k], f.set
}
