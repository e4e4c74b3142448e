package kube

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// firstRetry and slowestRead bound the pause before a failed list or watch is retried. An
// overloaded API server sets its own pause with Retry-After.
const (
	firstRetry  = 200 * time.Millisecond
	slowestRead = 10 * time.Second
)

type part struct {
	kind  *kind
	scope scope
}

type intake struct {
	source *Source
	part   part
	synced chan struct{}
	once   sync.Once

	mu  sync.Mutex
	ids map[string]struct{}
}

func newIntake(s *Source, p part) *intake {
	return &intake{source: s, part: p, synced: make(chan struct{}), ids: map[string]struct{}{}}
}

// Transformer returns a function that removes unneeded fields from each object as it arrives. A
// whole list of complete objects would take too much memory.
func (in *intake) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		if o, ok := obj.(store.Object); ok {
			shed(in.part.kind, o)
		}
		return obj, nil
	}
}

func (in *intake) Add(obj any) error { return in.Update(obj) }

func (in *intake) Update(obj any) error {
	o, ok := obj.(store.Object)
	if !ok {
		return nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ids[store.ID(o)] = struct{}{}
	in.source.arrive(in.part.kind, o)
	return nil
}

func (in *intake) Delete(obj any) error {
	o, ok := obj.(store.Object)
	if !ok {
		return nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	id := store.ID(o)
	delete(in.ids, id)
	in.source.leave(in.part.kind, id)
	return nil
}

// Replace replaces all objects of the part. The reflector calls it with the first list, and with a
// new list if a watch cannot be resumed.
func (in *intake) Replace(list []any, _ string) error {
	in.mu.Lock()
	before := in.ids
	in.ids = make(map[string]struct{}, len(list))
	for _, obj := range list {
		if o, ok := obj.(store.Object); ok {
			id := store.ID(o)
			in.ids[id] = struct{}{}
			delete(before, id)
			in.source.arrive(in.part.kind, o)
		}
	}
	for id := range before {
		in.source.leave(in.part.kind, id)
	}
	in.mu.Unlock()
	in.source.listed(in.part)
	in.once.Do(func() { close(in.synced) })
	in.source.notify()
	return nil
}

func (in *intake) Resync() error { return nil }

func (in *intake) has(id string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	_, ok := in.ids[id]
	return ok
}

func (in *intake) clear() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for id := range in.ids {
		in.source.leave(in.part.kind, id)
	}
	in.ids = map[string]struct{}{}
}

func (in *intake) isSynced() bool { return isClosed(in.synced) }

func (s *Source) follow(ctx context.Context, in *intake, version string) error {
	k := in.part.kind
	gv := schema.GroupVersion{Group: k.table.Group(), Version: version}
	r, err := s.client.restFor(gv, k.builtIn)
	if err != nil {
		return err
	}
	lw := listWatch(r, k.resource, in.part.scope, &partContact{ctx, s, in.part})
	if s.cfg.Share != nil {
		lw = s.cfg.Share.Bound(k.resource, lw, func(obj runtime.Object) runtime.Object { return s.selected(k, obj) })
	}
	mirror(ctx, lw, k.table.New(), in)
	return nil
}

// selected returns an object without unneeded fields; nil: Config.Keep excludes the object.
func (s *Source) selected(k *kind, obj runtime.Object) runtime.Object {
	o, ok := obj.(store.Object)
	if !ok || s.cfg.Keep != nil && !s.cfg.Keep(o) {
		return nil
	}
	shed(k, o)
	return obj
}

func (s *Source) followCRD(ctx context.Context, k *kind) error {
	r, err := s.client.restFor(crdVersion, false)
	if err != nil {
		return err
	}
	c := &partContact{ctx, s, k.definition()}
	mirror(ctx, listWatch(r, "customresourcedefinitions", scope{name: k.resource + "." + k.table.Group()}, c), &crd{},
		&definition{source: s, kind: k})
	return nil
}

func (k *kind) definition() part { return part{kind: k, scope: scope{name: "definition"}} }

func mirror(ctx context.Context, lw cache.ListerWatcher, example any, into cache.ReflectorStore) {
	var quiet klog.Logger // discards client-go's log lines
	r := cache.NewReflectorWithOptions(lw, example, into, cache.ReflectorOptions{
		Logger: &quiet, Name: "penstock",
		Backoff: &wait.Backoff{Duration: firstRetry, Factor: 2, Jitter: 0.5, Steps: 10, Cap: slowestRead},
	})
	r.RunWithContext(klog.NewContext(ctx, quiet))
}

type definition struct {
	source *Source
	kind   *kind
}

func (d *definition) Add(obj any) error { return d.Update(obj) }

func (d *definition) Update(obj any) error {
	if c, ok := obj.(*crd); ok {
		c.ManagedFields = nil
		d.source.defined(d.kind, c)
	}
	return nil
}

func (d *definition) Delete(any) error {
	d.source.defined(d.kind, nil)
	return nil
}

func (d *definition) Replace(list []any, _ string) error {
	defer d.source.listed(d.kind.definition())
	if len(list) == 0 {
		return d.Delete(nil)
	}
	return d.Update(list[0])
}

func (d *definition) Resync() error { return nil }

// arrive handles an object that a list or watch delivered. It may modify obj.
func (s *Source) arrive(k *kind, obj store.Object) {
	if k.rivals != nil {
		k.rivals.arrive(k, obj, s.admit)
		return
	}
	s.admit(k, obj)
}

func (s *Source) admit(k *kind, obj store.Object) {
	failed, changed := s.undecodable.note(k.ref(store.ID(obj)), obj)
	if changed {
		s.notify()
	}
	if failed && !k.closes {
		if old, stored := k.table.Object(s.store.View(), store.ID(obj)); stored && !closedBefore(old) {
			// The previous version of the undecodable object stays in use.
			return
		}
		standIn(obj)
	}
	if p, ok := obj.(*v1alpha1.AccessPolicy); ok {
		store.RestoreFormer(p)
	}
	apply := func() {
		if k.status != nil {
			s.lives.put(k.ref(store.ID(obj)), k, obj, k.status.Take(obj))
		}
		trim(k, obj)
		if g := s.gates[k]; g != nil {
			g.put(obj)
		} else {
			s.feed.add(k.table.PutObject(obj))
		}
		s.occupants.arrive(obj)
	}
	if !s.isReady() {
		apply()
		return
	}
	s.order.put(k.ref(store.ID(obj)), s.missing(k, obj), apply)
}

func (s *Source) leave(k *kind, id string) {
	if k.rivals != nil {
		k.rivals.leave(k, id, s.admit, func() { s.dismiss(k, id) })
		return
	}
	s.dismiss(k, id)
}

func (s *Source) dismiss(k *kind, id string) {
	if _, changed := s.undecodable.note(k.ref(id), nil); changed {
		s.notify()
	}
	apply := func() {
		if k.status != nil {
			s.lives.drop(k.ref(id))
		}
		if g := s.gates[k]; g != nil {
			g.delete(id)
		} else {
			s.feed.add(k.table.Delete(id))
		}
		s.occupants.leave(k.table.Kind(), id)
	}
	s.order.remove(k.ref(id), k.role == isBackend && s.isReady(), apply)
}

func (k *kind) ref(id string) report.Ref {
	if k.instead != nil {
		return k.instead.ref(id)
	}
	return store.RefOf(k.table, id)
}
