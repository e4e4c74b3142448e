package fleet

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/fleet/cluster"
	"github.com/penstock-project/penstock/fleet/render"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// Source is the name under which reports go to the board: status.Supervisor.
const Source = "supervisor"

// Cluster is where the objects are. *cluster.Cluster is one.
type Cluster interface {
	// Objects are those of one fleet that the API server has.
	Objects(namespace, fleet string) []cluster.Object
	// Apply brings one into the wanted form, whose hash is applied; known says that it was seen.
	Apply(ctx context.Context, obj render.Object, applied string, known bool) error
	// Delete deletes one; that it is gone already is no error.
	Delete(ctx context.Context, o cluster.Object) error
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
	// Cluster is where their objects are. Only Run needs it.
	Cluster Cluster
	// Settings are what all fleets share; asked for each time, because the certificate authority changes. Only Run needs them.
	Settings func() render.Settings
	// Board is told of addresses and of what went wrong. Only Run needs it.
	Board Board
	Log   *slog.Logger
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
	cfg   Config
	queue workqueue.TypedRateLimitingInterface[key]

	mu       sync.Mutex
	set      bool                   // Set was called
	gateways map[key]*member        // by the fleet's name
	marks    map[cluster.Ref]string // of what was applied or found right
	said     map[key]report.Report  // newest of each
	orphans  map[key]struct{}       // fleets with objects whose Gateway is not ours now
}

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
	return &Fleets{
		cfg:      c,
		gateways: map[key]*member{}, marks: map[cluster.Ref]string{}, said: map[key]report.Report{}, orphans: map[key]struct{}{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[key](time.Second, time.Minute)),
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
			f.queue.Add(k)
		}
	}
	for k := range f.gateways {
		if next[k] == nil {
			f.queue.Add(k)
		}
	}
	for k := range f.orphans { // there may be more reason to end them now
		f.queue.Add(k)
	}
	f.gateways, f.set = next, true
}

// Changed is to be called with each object of a fleet that changed in the cluster.
func (f *Fleets) Changed(ref cluster.Ref) { f.queue.Add(key{ref.Namespace, ref.Name}) }

// Refresh looks at all fleets again: Settings have changed.
func (f *Fleets) Refresh() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for k := range f.gateways {
		f.queue.Add(k)
	}
}

// workers is how many fleets are brought up to date at the same time.
const workers = 4

// Run keeps the objects of all fleets until ctx ends. All objects of the cluster must have been listed. It may be called once.
func (f *Fleets) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, f.queue.ShutDown)
	defer stop()
	f.Refresh()
	var group sync.WaitGroup
	for range workers {
		group.Go(func() { f.work(ctx) })
	}
	group.Wait()
	return ctx.Err()
}

func (f *Fleets) work(ctx context.Context) {
	for {
		k, over := f.queue.Get()
		if over {
			return
		}
		if err := f.sync(ctx, k); err != nil && ctx.Err() == nil {
			f.cfg.Log.Warn("fleet is not as it should be; trying again", "gateway", k.namespace+"/"+k.fleet, "error", err)
			f.queue.AddRateLimited(k)
		} else {
			f.queue.Forget(k)
		}
		f.queue.Done(k)
	}
}

// member finds the Gateway of a fleet. ready is false before Set.
func (f *Fleets) member(k key) (m *member, ready bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gateways[k], f.set
}
