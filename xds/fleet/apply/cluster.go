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

// FieldManager is Penstock's name in managedFields.
const FieldManager = "penstock"

// ErrNotOwned is the error of Apply if an object without Penstock's label has the name.
var ErrNotOwned = errors.New("exists without the label of Penstock")

// Config configures a Cluster.
type Config struct {
	// REST's rate limit is ignored. Required.
	REST *rest.Config
	// Namespaces are the watched namespaces; empty: all.
	Namespaces []string
	// Changed is called, from several goroutines, with each changed or deleted object. For pods, it
	// is called with the fleet's name, if the fleet's nodes have changed. Required.
	Changed func(Ref)
}

// Cluster watches and writes objects. It is safe for concurrent use.
type Cluster struct {
	client     dynamic.Interface
	namespaces []string
	changed    func(Ref)

	mu      sync.Mutex
	objects map[Ref]*Object
	pods    map[Ref]map[Ref]*Object
}

func New(c Config) (*Cluster, error) {
	cfg := rest.CopyConfig(c.REST)
	cfg.QPS = -1 // a rate limit would delay writes; only objects that differ are written
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("kubernetes client: %w", err)
	}
	namespaces := c.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	return &Cluster{client: client, namespaces: namespaces, changed: c.Changed, objects: map[Ref]*Object{},
		pods: map[Ref]map[Ref]*Object{}}, nil
}

// Run watches objects until ctx ends. It calls synced once all objects have been listed.
func (c *Cluster) Run(ctx context.Context, synced func()) error {
	group, ctx := errgroup.WithContext(ctx)
	var left sync.WaitGroup
	for _, kind := range append(slices.Collect(maps.Keys(kinds)), podKind) {
		for _, namespace := range c.namespaces {
			left.Add(1)
			in := &intake{cluster: c, kind: kind, namespace: namespace, listed: sync.OnceFunc(left.Done)}
			reflector := cache.NewReflectorWithOptions(c.listWatch(kind, namespace), &unstructured.Unstructured{}, in,
				cache.ReflectorOptions{Name: "fleet " + kind})
			group.Go(func() error {
				defer in.listed()
				reflector.RunWithContext(ctx)
				return ctx.Err()
			})
		}
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

func (c *Cluster) listWatch(kind, namespace string) *cache.ListWatch {
	client := c.client.Resource(resourceOf(kind)).Namespace(namespace)
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

// Objects returns one fleet's objects, sorted by kind, without pods.
func (c *Cluster) Objects(namespace, fleet string) []Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Object
	for kind := range kinds {
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

// The caller holds c.mu.
func (c *Cluster) nodes(namespace, fleet string) (out []string) {
	for _, pod := range c.pods[Ref{podKind, namespace, fleet}] {
		out = append(out, pod.Nodes...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Apply writes an object and its hash. If known is not set, Apply first checks that no object
// without Penstock's label has the name.
func (c *Cluster) Apply(ctx context.Context, obj render.Object, applied string, known bool) error {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	client := c.client.Resource(kinds[kind]).Namespace(obj.GetNamespace())
	if !known {
		there, err := client.Get(ctx, obj.GetName(), metav1.GetOptions{})
		switch {
		case err == nil && there.GetLabels()[render.LabelFleet] != obj.GetLabels()[render.LabelFleet]:
			return fmt.Errorf("%s %s %w", kind, obj.GetName(), ErrNotOwned)
		case err != nil && !apierrors.IsNotFound(err):
			return fmt.Errorf("get %s %s: %w", kind, obj.GetName(), err)
		}
	}
	body, err := encode(obj, applied)
	if err != nil {
		return err
	}
	yes := true
	now, err := client.Patch(ctx, obj.GetName(), types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: FieldManager, Force: &yes})
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", kind, obj.GetName(), err)
	}
	c.see(digest(kind, now))
	return nil
}

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

// Delete deletes an object, unless another object has replaced it.
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
	if old != nil && old.Fleet != o.Fleet {
		delete(c.pods[old.subject()], o.Ref)
	}
	if c.pods[o.subject()] == nil {
		c.pods[o.subject()] = map[Ref]*Object{}
	}
	c.pods[o.subject()][o.Ref] = o
	return old == nil || !slices.Equal(old.Nodes, o.Nodes)
}

func (c *Cluster) drop(ref Ref) {
	c.mu.Lock()
	o := c.objects[ref]
	delete(c.objects, ref)
	if o != nil && o.Kind == podKind {
		ref = o.subject()
		if delete(c.pods[ref], o.Ref); len(c.pods[ref]) == 0 {
			delete(c.pods, ref)
		}
	}
	c.mu.Unlock()
	c.changed(ref)
}

type intake struct {
	cluster   *Cluster
	kind      string
	namespace string
	listed    func()
}

func (in *intake) Add(obj any) error { return in.Update(obj) }
func (in *intake) Resync() error     { return nil }

func (in *intake) Delete(obj any) error {
	if o := in.digest(obj); o != nil {
		in.cluster.drop(o.Ref)
	}
	return nil
}

func (in *intake) Update(obj any) error {
	if o := in.digest(obj); o != nil && in.cluster.see(o) {
		in.cluster.changed(o.subject())
	}
	return nil
}

// All objects that are not in the list were deleted.
func (in *intake) Replace(list []any, _ string) error {
	there := map[Ref]bool{}
	for _, obj := range list {
		if o := in.digest(obj); o != nil {
			there[o.Ref] = true
		}
		_ = in.Update(obj)
	}
	in.cluster.mu.Lock()
	var gone []Ref
	for ref := range in.cluster.objects {
		if ref.Kind == in.kind && (in.namespace == "" || ref.Namespace == in.namespace) && !there[ref] {
			gone = append(gone, ref)
		}
	}
	in.cluster.mu.Unlock()
	for _, ref := range gone {
		in.cluster.drop(ref)
	}
	in.listed()
	return nil
}

func (in *intake) digest(obj any) *Object {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return digest(in.kind, u)
	}
	return nil
}
