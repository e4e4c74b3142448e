package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/penstock-project/penstock/xds/fleet/render"
)

// FieldManager is who we are in an object's managedFields.
const FieldManager = "penstock"

// ErrForeign says that an object of the name exists that is not ours.
var ErrForeign = errors.New("exists and does not belong to Penstock")

// Config is what a Cluster needs.
type Config struct {
	// REST says where the API server is. Its rate limit is not used. Required.
	REST *rest.Config
	// Changed is told of each object that came, changed or went, from several goroutines; of pods, only that the nodes have changed
	// that a fleet runs on, whose name is then in Ref. Required.
	Changed func(Ref)
}

// Cluster follows and writes objects. Safe for use by many.
type Cluster struct {
	client  dynamic.Interface
	changed func(Ref)

	mu      sync.Mutex
	objects map[Ref]*Object
	pods    map[Ref]map[Ref]*Object // by their fleet: see about
}

// New makes a Cluster that knows nothing yet.
func New(c Config) (*Cluster, error) {
	cfg := rest.CopyConfig(c.REST)
	cfg.QPS = -1 // writes are compared first; a cap would only delay the rest
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("kubernetes client: %w", err)
	}
	return &Cluster{client: client, changed: c.Changed, objects: map[Ref]*Object{}, pods: map[Ref]map[Ref]*Object{}}, nil
}

// Run follows the objects until ctx ends; synced is called once, when all have been listed.
func (c *Cluster) Run(ctx context.Context, synced func()) error {
	group, ctx := errgroup.WithContext(ctx)
	var left sync.WaitGroup
	for _, kind := range append(slices.Collect(maps.Keys(kinds)), podKind) {
		left.Add(1)
		in := &intake{cluster: c, kind: kind, listed: sync.OnceFunc(left.Done)}
		reflector := cache.NewReflectorWithOptions(c.listWatch(kind), &unstructured.Unstructured{}, in, cache.ReflectorOptions{Name: "fleet " + kind})
		group.Go(func() error {
			defer in.listed()
			reflector.RunWithContext(ctx)
			return ctx.Err()
		})
	}
	group.Go(func() error {
		left.Wait()
		if ctx.Err() == nil {
			synced()
		}
		return nil
	})
	return group.Wait()
}

func (c *Cluster) listWatch(kind string) *cache.ListWatch {
	client := c.client.Resource(resourceOf(kind))
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = render.LabelFleet
			return client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = render.LabelFleet
			return client.Watch(ctx, o)
		},
	}
}

// Objects are those of one fleet that the API server has, sorted by kind. Its pods are not among them: they are its Deployment's.
func (c *Cluster) Objects(namespace, fleet string) []Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Object
	for kind := range kinds {
		// All objects of a fleet have its name.
		if o := c.objects[Ref{kind, namespace, fleet}]; o != nil && o.Fleet == fleet {
			copied := *o
			if kind == "Service" {
				copied.Nodes = c.nodes(namespace, fleet)
			}
			out = append(out, copied)
		}
	}
	slices.SortFunc(out, func(a, b Object) int { return strings.Compare(a.Kind, b.Kind) })
	return out
}

// nodes are where the pods of a fleet are that take traffic. Called with mu held.
func (c *Cluster) nodes(namespace, fleet string) (out []string) {
	for _, pod := range c.pods[Ref{podKind, namespace, fleet}] {
		out = append(out, pod.Nodes...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Apply brings an object into the form that is wanted; applied is its hash, kept in AnnotationApplied. known says that the
// object has been seen: an unknown one is looked for first.
func (c *Cluster) Apply(ctx context.Context, obj render.Object, applied string, known bool) error {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	client := c.client.Resource(kinds[kind]).Namespace(obj.GetNamespace())
	if !known {
		there, err := client.Get(ctx, obj.GetName(), metav1.GetOptions{})
		switch {
		case err == nil && there.GetLabels()[render.LabelFleet] != obj.GetLabels()[render.LabelFleet]:
			return fmt.Errorf("%s %s %w", kind, obj.GetName(), ErrForeign)
		case err != nil && !apierrors.IsNotFound(err):
			return fmt.Errorf("look for %s %s: %w", kind, obj.GetName(), err)
		}
	}
	body, err := encode(obj, applied)
	if err != nil {
		return err
	}
	yes := true
	now, err := client.Patch(ctx, obj.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: FieldManager, Force: &yes})
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", kind, obj.GetName(), err)
	}
	c.see(digest(kind, now))
	return nil
}

// encode is an object without its status, which is not ours.
func encode(obj render.Object, applied string) ([]byte, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", obj.GetName(), err)
	}
	delete(fields, "status")
	u := unstructured.Unstructured{Object: fields}
	annotations := maps.Clone(u.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[AnnotationApplied] = applied
	u.SetAnnotations(annotations)
	return json.Marshal(fields)
}

// Delete deletes an object unless it has been replaced by another of its name. One that is gone is no error.
func (c *Cluster) Delete(ctx context.Context, o Object) error {
	uid := types.UID(o.UID)
	background := metav1.DeletePropagationBackground
	err := c.client.Resource(kinds[o.Kind]).Namespace(o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background,
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s: %w", o.Ref, err)
	}
	return nil
}

// see takes in an object unless a newer form of it is known, and says whether it was news.
func (c *Cluster) see(o *Object) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.objects[o.Ref]
	if old != nil && old.UID == o.UID && old.version > o.version {
		return false
	}
	c.objects[o.Ref] = o
	if o.Kind != podKind {
		return true
	}
	if old != nil && old.Fleet != o.Fleet { // somebody has put it aside
		delete(c.pods[old.about()], o.Ref)
	}
	if c.pods[o.about()] == nil {
		c.pods[o.about()] = map[Ref]*Object{}
	}
	c.pods[o.about()][o.Ref] = o
	return old == nil || !slices.Equal(old.Nodes, o.Nodes)
}

func (c *Cluster) forget(ref Ref) {
	c.mu.Lock()
	o := c.objects[ref]
	delete(c.objects, ref)
	if o != nil && o.Kind == podKind {
		ref = o.about()
		if delete(c.pods[ref], o.Ref); len(c.pods[ref]) == 0 {
			delete(c.pods, ref)
		}
	}
	c.mu.Unlock()
	c.changed(ref)
}

// intake takes what a reflector reads of one kind. It implements cache.ReflectorStore.
type intake struct {
	cluster *Cluster
	kind    string
	listed  func()
}

func (in *intake) Add(obj any) error { return in.Update(obj) }
func (in *intake) Resync() error     { return nil }
func (in *intake) Delete(obj any) error {
	return in.each(obj, func(o *Object) { in.cluster.forget(o.Ref) })
}

func (in *intake) Update(obj any) error {
	return in.each(obj, func(o *Object) {
		if in.cluster.see(o) {
			in.cluster.changed(o.about())
		}
	})
}

// Replace takes a whole list: what is missing in it has gone.
func (in *intake) Replace(list []any, _ string) error {
	there := map[Ref]bool{}
	for _, obj := range list {
		_ = in.each(obj, func(o *Object) { there[o.Ref] = true })
		_ = in.Update(obj)
	}
	in.cluster.mu.Lock()
	var gone []Ref
	for ref := range in.cluster.objects {
		if ref.Kind == in.kind && !there[ref] {
			gone = append(gone, ref)
		}
	}
	in.cluster.mu.Unlock()
	for _, ref := range gone {
		in.cluster.forget(ref)
	}
	in.listed()
	return nil
}

func (in *intake) each(obj any, do func(*Object)) error {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		do(digest(in.kind, u))
	}
	return nil
}
