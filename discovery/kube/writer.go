package kube

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/kube/statuses"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// Reports is what is said of objects. A status.Board with its Feed is one.
type Reports interface {
	// Get returns the report about one object; false if nobody says anything.
	Get(report.Ref) (report.Report, bool)
}

// Changes tells of which objects something else is said. A status.Feed is one.
type Changes interface {
	Next(context.Context) ([]report.Ref, error)
	Close()
}

// Delivery knows what the proxies have.
type Delivery interface {
	// Delivered says how many proxies of a gateway ("namespace/name") are connected, to any process of ours, and whether all
	// of them have what a generation of it asks for, with all listeners that it has now.
	Delivered(gateway string, generation int64) (proxies int, acked bool)
}

// WriterConfig is what a Writer needs. All but Log and Now is required.
type WriterConfig struct {
	Source     *Source
	Reports    Reports
	Follow     func() Changes // starts to tell, with all objects of which something is said
	Delivery   Delivery
	Controller string                  // controllerName of what is ours
	Features   []gatewayv1.FeatureName // for GatewayClasses
	Log        *slog.Logger            // nil: slog.Default
	Now        func() time.Time        // nil: time.Now
}

// Writer writes statuses. Safe for use by many.
type Writer struct {
	cfg  WriterConfig
	pace pace

	mu       sync.Mutex
	observed map[report.Ref]int64     // the generation that was translated last
	bare     map[report.Ref]time.Time // Gateways without proxies, and since when
	queues   *queues                  // nil: not leading
}

// queues are two, so that Gateways, which are few and which people wait for, do not wait behind thousands of routes.
type queues struct {
	few, many workqueue.TypedRateLimitingInterface[report.Ref]
}

func (q *queues) of(ref report.Ref) workqueue.TypedRateLimitingInterface[report.Ref] {
	switch ref.Kind {
	case "GatewayClass", "Gateway", "ListenerSet":
		return q.few
	}
	return q.many
}

const (
	// fewWorkers and manyWorkers are how many writes are under way at once. The API server takes 200 by default, of all clients.
	fewWorkers, manyWorkers = 4, 16
	// conflictDelay is how long after a conflict what the API server has is expected to have arrived.
	conflictDelay = 50 * time.Millisecond
)

// NewWriter makes a Writer; it writes nothing before Lead.
func NewWriter(cfg WriterConfig) (*Writer, error) {
	if cfg.Source == nil || cfg.Reports == nil || cfg.Follow == nil || cfg.Delivery == nil || cfg.Controller == "" {
		return nil, errors.New("kubernetes status writer: something that it needs was not given")
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	w := &Writer{cfg: cfg, pace: pace{last: map[report.Ref]written{}}, observed: map[report.Ref]int64{}, bare: map[report.Ref]time.Time{}}
	cfg.Source.lives.listen(func(ref report.Ref) { w.Touch(ref) })
	return w, nil
}

// Observe says that the reports follow from a view now, in which changes are new: statuses name the generation that they
// are about.
func (w *Writer) Observe(view *store.View, changes []store.Change) {
	var touched []report.Ref
	w.mu.Lock()
	for _, c := range changes {
		k := w.cfg.Source.byTable[c.Table]
		switch {
		case k == nil:
		case k.status != nil:
			ref := k.ref(c.ID)
			if obj, ok := k.table.Object(view, c.ID); ok {
				w.observed[ref] = obj.GetGeneration()
			} else {
				delete(w.observed, ref)
				delete(w.bare, ref)
			}
			touched = append(touched, ref)
			if c.Table == store.Gateways.Kind() {
				for _, key := range c.Keys {
					if key.Index == store.ByClass {
						touched = append(touched, report.Ref{Group: store.GatewayClasses.Group(), Kind: store.GatewayClasses.Kind(), Name: key.Key})
					}
				}
			}
		case c.Table == store.Services.Kind():
			for _, key := range c.Keys {
				if key.Index == store.ByGateway {
					touched = append(touched, gatewayRef(key.Key))
				}
			}
		}
	}
	w.mu.Unlock()
	w.Touch(touched...)
}

// TouchGateways has some Gateways looked at again, with their ListenerSets: what their proxies have has changed.
func (w *Writer) TouchGateways(keys ...string) {
	view := w.cfg.Source.store.View()
	for _, key := range keys {
		w.Touch(gatewayRef(key))
		for _, set := range store.ListenerSets.By(view, store.ByParent, key) {
			w.Touch(store.ListenerSets.Ref(set))
		}
	}
}

func gatewayRef(key string) report.Ref {
	ns, name := split(key)
	return report.Ref{Group: store.Gateways.Group(), Kind: store.Gateways.Kind(), Namespace: ns, Name: name}
}

// Touch has objects looked at again, if this process leads.
func (w *Writer) Touch(refs ...report.Ref) {
	w.mu.Lock()
	q := w.queues
	w.mu.Unlock()
	if q == nil {
		return
	}
	for _, ref := range refs {
		q.of(ref).AddAfter(ref, w.pace.touch(ref, w.cfg.Now()))
	}
}

// Lead keeps all statuses until ctx ends.
func (w *Writer) Lead(ctx context.Context) error {
	limit := func() workqueue.TypedRateLimiter[report.Ref] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[report.Ref](100*time.Millisecond, 30*time.Second)
	}
	q := &queues{workqueue.NewTypedRateLimitingQueue(limit()), workqueue.NewTypedRateLimitingQueue(limit())}
	w.mu.Lock()
	w.queues = q
	clear(w.bare)
	w.mu.Unlock()
	changes := w.cfg.Follow()
	w.Touch(w.cfg.Source.lives.refs()...)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer changes.Close()
		for {
			refs, err := changes.Next(ctx)
			if err != nil {
				return err
			}
			w.Touch(refs...)
		}
	})
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
		ref, over := q.Get()
		if over {
			return
		}
		if left := w.pace.wait(ref, w.cfg.Now()); left > 0 {
			q.AddAfter(ref, left)
		} else {
			w.done(ctx, q, ref, w.write(ctx, ref))
		}
		q.Done(ref)
	}
}

// done decides when an object is looked at again.
func (w *Writer) done(ctx context.Context, q workqueue.TypedRateLimitingInterface[report.Ref], ref report.Ref, err error) {
	switch {
	case err == nil, apierrors.IsNotFound(err), ctx.Err() != nil:
		q.Forget(ref)
	case apierrors.IsConflict(err):
		q.AddAfter(ref, conflictDelay)
	default:
		if q.NumRequeues(ref) == 0 {
			w.cfg.Log.Warn("cannot write the status; trying again", "object", ref.String(), "error", err)
		}
		q.AddRateLimited(ref)
	}
}

// write brings one object up to date, as far as it is ours to write.
func (w *Writer) write(ctx context.Context, ref report.Ref) error {
	if err := w.writeStatus(ctx, ref); err != nil {
		return err
	}
	return w.hold(ctx, ref)
}

// writeStatus brings one object's status up to date, if it is not.
func (w *Writer) writeStatus(ctx context.Context, ref report.Ref) error {
	s := w.cfg.Source
	k := s.byTable[ref.Kind]
	if k == nil || k.status == nil || k.table.Group() != ref.Group {
		return nil
	}
	now, ok := s.lives.get(ref)
	if !ok {
		w.pace.forget(ref)
		return nil
	}
	k = now.kind
	w.mu.Lock()
	generation, translated := w.observed[ref]
	w.mu.Unlock()
	view := s.store.View()
	obj, ok := k.table.Object(view, ref.Key())
	if !ok || !translated {
		return nil // it comes again when it is translated
	}
	rep, _ := w.cfg.Reports.Get(ref)
	in := statuses.Input{Report: rep, Object: obj, Old: now.status, Generation: generation, Controller: w.cfg.Controller, Now: metav1.NewTime(w.cfg.Now().Truncate(time.Second))}
	switch o := obj.(type) {
	case *gatewayv1.Gateway:
		w.gateway(&in, view, o)
	case *gatewayv1.ListenerSet:
		w.listenerSet(&in, o)
	case *gatewayv1.GatewayClass:
		in.Features, in.Supported = w.cfg.Features, s.supportedVersion()
	}
	want := k.status.Make(in)
	if equality.Semantic.DeepEqual(now.status, want) {
		return nil
	}
	body, err := patch(now, want)
	if err != nil {
		return err
	}
	w.pace.note(ref, w.cfg.Now())
	after, err := s.client.patch(ctx, k, s.version(k), ref.Key(), "status", body)
	if err != nil {
		return err
	}
	s.lives.wrote(ref, after, k.status.Take(after))
	return nil
}

// patch is the merge patch from the status that there is to the one that there should be: the fields that differ, and the
// version that it is made for, so that nothing is lost that somebody else wrote meanwhile.
func patch(from live, to any) ([]byte, error) {
	before, err := fields(from.status)
	if err != nil {
		return nil, err
	}
	diff, err := fields(to)
	if err != nil {
		return nil, err
	}
	for name, old := range before {
		if now, ok := diff[name]; !ok {
			diff[name] = nil
		} else if reflect.DeepEqual(old, now) {
			delete(diff, name)
		}
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": from.uid, "resourceVersion": from.resourceVersion}, "status": diff})
}

func fields(status any) (map[string]any, error) {
	raw, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	return out, json.Unmarshal(raw, &out)
}
