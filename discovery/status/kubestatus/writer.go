package kubestatus

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/status/shape"
	"github.com/penstock-project/penstock/discovery/store"
)

// Delivery reports which proxies are connected, and what they have acknowledged.
type Delivery interface {
	// Delivered returns the number of proxies of a gateway ("namespace/name") that are connected to
	// any penstock process. acked means that all of them have acknowledged the generation, and the
	// gateway's current listeners and AccessPolicies.
	Delivered(gateway string, generation int64) (proxies int, acked bool)
}

// Config configures a Writer. Only Log, Now and OnPanic are optional.
type Config struct {
	Source     *kube.Source // reads current statuses and sends patches
	Store      *store.Store // the store that Source fills
	Board      *status.Board
	Delivery   Delivery
	Controller string                  // controllerName of Penstock's entries and classes
	Features   []gatewayv1.FeatureName // supportedFeatures of GatewayClasses
	Log        *slog.Logger            // nil: slog.Default
	Now        func() time.Time        // nil: time.Now
	// OnPanic receives a panic during the write of one object; nil: ignored.
	OnPanic func(object string, value any, stack []byte)
}

// Writer writes statuses. It is safe for concurrent use.
type Writer struct {
	cfg    Config
	tables map[string]store.Kind
	pace   pace

	mu        sync.Mutex
	observed  map[report.Ref]int64
	proxyless map[report.Ref]time.Time
	warned    map[report.Ref]bool
	queues    *queues // nil: not leading
}

// queues separates Gateways, which are few and for which users wait, from thousands of routes.
type queues struct {
	few, many workqueue.TypedRateLimitingInterface[report.Ref]
}

func (q *queues) forKind(kind string) workqueue.TypedRateLimitingInterface[report.Ref] {
	switch kind {
	case "GatewayClass", "Gateway", "ListenerSet":
		return q.few
	}
	return q.many
}

const (
	// fewWorkers and manyWorkers bound the writes in flight. The API server accepts 200 concurrent
	// requests of all clients by default.
	fewWorkers, manyWorkers = 4, 16
	// conflictDelay is the delay of a retry after a conflict. Until then, the watch usually
	// delivers the newer version of the object.
	conflictDelay = 50 * time.Millisecond
)

// New makes a Writer. It writes nothing before Lead.
func New(cfg Config) (*Writer, error) {
	if cfg.Source == nil || cfg.Store == nil || cfg.Board == nil || cfg.Delivery == nil || cfg.Controller == "" {
		return nil, errors.New("kubernetes status writer: source, store, board, delivery or controller name is missing")
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	w := &Writer{
		cfg: cfg, tables: map[string]store.Kind{}, pace: pace{last: map[report.Ref]written{}},
		observed: map[report.Ref]int64{}, proxyless: map[report.Ref]time.Time{}, warned: map[report.Ref]bool{},
	}
	shapes := shape.ByKind()
	for _, t := range store.Tables() {
		if shapes[t.Kind()] != nil {
			w.tables[t.Kind()] = t
		}
	}
	cfg.Source.OnLive(func(ref report.Ref) { w.invalidate(ref) })
	return w, nil
}

// Observe records that the board's reports describe the objects in view. changes has the changes of
// the store since the last call. The reports about them must already be on the board.
func (w *Writer) Observe(view *store.View, changes []store.Change) {
	var dirty []report.Ref
	w.mu.Lock()
	for _, c := range changes {
		if c.Table == store.Services.Kind() {
			for _, key := range c.Keys {
				if key.Index == store.ByGateway {
					dirty = append(dirty, store.RefOf(store.Gateways, key.Key))
				}
			}
		}
		table := w.tables[c.Table]
		if table == nil {
			continue
		}
		ref := store.RefOf(table, c.ID)
		if obj, ok := table.Object(view, c.ID); ok {
			w.observed[ref] = obj.GetGeneration()
		} else {
			delete(w.observed, ref)
			delete(w.proxyless, ref)
			delete(w.warned, ref)
		}
		dirty = append(dirty, ref)
		if c.Table == store.Gateways.Kind() {
			for _, key := range c.Keys {
				if key.Index == store.ByClass { // a class without Gateways may be deleted
					dirty = append(dirty, store.RefOf(store.GatewayClasses, key.Key))
				}
			}
		}
	}
	w.mu.Unlock()
	w.invalidate(dirty...)
}

// DeliveryChanged queues Gateways ("namespace/name"), their ListenerSets and their AccessPolicies,
// because the result of Delivered may have changed.
func (w *Writer) DeliveryChanged(gateways ...string) {
	view := w.cfg.Store.View()
	for _, key := range gateways {
		w.invalidate(store.RefOf(store.Gateways, key))
		for _, set := range store.ListenerSets.By(view, store.ByParent, key) {
			w.invalidate(store.ListenerSets.Ref(set))
		}
	}
	for _, p := range store.AccessPolicies.All(view) {
		ref := store.AccessPolicies.Ref(p)
		reported, _ := w.cfg.Board.Get(ref)
		if slices.ContainsFunc(reported.Parents, func(at report.Parent) bool {
			return slices.Contains(gateways, objectid.Join(at.Ref.Namespace, at.Ref.Name))
		}) {
			w.invalidate(ref)
		}
	}
}

func (w *Writer) invalidate(refs ...report.Ref) {
	w.mu.Lock()
	q := w.queues
	w.mu.Unlock()
	if q == nil {
		return
	}
	for _, ref := range refs {
		q.forKind(ref.Kind).AddAfter(ref, w.pace.changed(ref, w.cfg.Now()))
	}
}

// Lead keeps all statuses up to date until ctx ends.
func (w *Writer) Lead(ctx context.Context) error {
	limit := func() workqueue.TypedRateLimiter[report.Ref] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[report.Ref](100*time.Millisecond, 30*time.Second)
	}
	q := &queues{workqueue.NewTypedRateLimitingQueue(limit()), workqueue.NewTypedRateLimitingQueue(limit())}
	w.mu.Lock()
	w.queues = q
	clear(w.proxyless)
	w.mu.Unlock()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return w.follow(ctx) })
	for range fewWorkers {
		group.Go(func() error { w.work(ctx, q.few); return nil })
	}
	for range manyWorkers {
		group.Go(func() error { w.work(ctx, q.many); return nil })
	}
	group.Go(func() error {
		<-ctx.Done()
		w.mu.Lock()
		w.queues = nil
		w.mu.Unlock()
		q.few.ShutDown()
		q.many.ShutDown()
		return nil
	})
	return group.Wait()
}

func (w *Writer) work(ctx context.Context, q workqueue.TypedRateLimitingInterface[report.Ref]) {
	for {
		ref, shutdown := q.Get()
		if shutdown {
			return
		}
		if left := w.pace.wait(ref, w.cfg.Now()); left > 0 {
			q.AddAfter(ref, left)
		} else {
			w.requeue(ctx, q, ref, w.guard(ref.String(), func() error { return w.write(ctx, ref) }))
		}
		q.Done(ref)
	}
}

func (w *Writer) requeue(ctx context.Context, q workqueue.TypedRateLimitingInterface[report.Ref], ref report.Ref,
	err error) {
	switch {
	case err == nil, apierrors.IsNotFound(err), ctx.Err() != nil:
		q.Forget(ref)
	case apierrors.IsConflict(err):
		q.AddAfter(ref, conflictDelay)
	default:
		if q.NumRequeues(ref) == 0 {
			w.cfg.Log.Warn("cannot write the status of an object; retrying", "object", ref.String(), "error", err)
		}
		q.AddRateLimited(ref)
	}
}

func (w *Writer) write(ctx context.Context, ref report.Ref) error {
	if err := w.writeStatus(ctx, ref); err != nil {
		return err
	}
	return w.holdClass(ctx, ref)
}
