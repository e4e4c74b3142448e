package hub

import (
	"context"
	"reflect"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

const (
	nodeResource       = "nodes"
	poolExportResource = "poolexports"
)

// beside caches a member's Nodes and PoolExports, because the store has no tables for these kinds.
type beside struct {
	informers map[string]cache.SharedIndexInformer // keyed by resource; only readable kinds
}

// newBeside makes informers for the rights with a kept function. They call changed, which must not
// block, after each change.
func newBeside(client dynamic.Interface, rights []right, share *kube.Share, changed func()) (*beside, error) {
	b := &beside{informers: map[string]cache.SharedIndexInformer{}}
	for _, r := range rights {
		if r.kept == nil {
			continue
		}
		resource := client.Resource(r.gvr())
		lw := share.Bound(r.resource, &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return resource.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				o.Watch = true
				return resource.Watch(ctx, o)
			},
		}, func(obj runtime.Object) runtime.Object {
			if u, ok := obj.(*unstructured.Unstructured); ok {
				return r.kept(u)
			}
			return nil
		})
		informer := cache.NewSharedIndexInformer(lw, nil, 0, cache.Indexers{})
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { changed() }, DeleteFunc: func(any) { changed() },
			UpdateFunc: func(old, now any) {
				if !reflect.DeepEqual(old, now) {
					changed()
				}
			},
		}); err != nil {
			return nil, err
		}
		b.informers[r.resource] = informer
	}
	return b, nil
}

func keptNode(u *unstructured.Unstructured) runtime.Object {
	var n corev1.Node
	if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &n) != nil {
		return nil
	}
	topology := map[string]string{}
	for _, label := range []string{corev1.LabelTopologyRegion, corev1.LabelTopologyZone} {
		if value := n.Labels[label]; value != "" {
			topology[label] = value
		}
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: topology},
		Status: corev1.NodeStatus{Addresses: n.Status.Addresses}}
}

// The hub needs only the entries of the member's own exports.
func keptExport(u *unstructured.Unstructured) runtime.Object {
	var e v1alpha1.PoolExport
	if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &e) != nil {
		return nil
	}
	out := &v1alpha1.PoolExport{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name}, Spec: e.Spec}
	if e.Status.ClusterUID == "" && !e.Status.Withdrawn {
		out.Status.Entry = e.Status.Entry
	}
	return out
}

func (b *beside) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, informer := range b.informers {
		group.Go(func() error {
			informer.RunWithContext(ctx)
			return ctx.Err()
		})
	}
	return group.Wait()
}

func (b *beside) synced(ctx context.Context) error {
	for _, informer := range b.informers {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return ctx.Err()
		}
	}
	return nil
}

func (b *beside) nodeAddress(name string) (address string) {
	informer := b.informers[nodeResource]
	if informer == nil {
		return ""
	}
	obj, ok, err := informer.GetStore().GetByKey(name)
	if err != nil || !ok {
		return ""
	}
	for _, a := range obj.(*corev1.Node).Status.Addresses {
		switch a.Type {
		case corev1.NodeInternalIP:
			return a.Address
		case corev1.NodeExternalIP:
			address = a.Address
		}
	}
	return address
}

func (b *beside) list(resource string) []any {
	if informer := b.informers[resource]; informer != nil {
		return informer.GetStore().List()
	}
	return nil
}

// topology returns the region and the zone of all nodes; "": they differ, or the hub cannot read
// them.
func (b *beside) topology() (region, zone string) {
	nodes := b.list(nodeResource)
	same := func(label string) (value string) {
		for i, obj := range nodes {
			here := obj.(*corev1.Node).Labels[label]
			if i > 0 && here != value {
				return ""
			}
			value = here
		}
		return value
	}
	if region = same(corev1.LabelTopologyRegion); region != "" {
		zone = same(corev1.LabelTopologyZone)
	}
	return region, zone
}

func (b *beside) exports() map[objectid.Pool]*inferenceapi.ImportedCluster {
	out := map[objectid.Pool]*inferenceapi.ImportedCluster{}
	for _, obj := range b.list(poolExportResource) {
		if e := obj.(*v1alpha1.PoolExport); e.Status.Entry != nil {
			out[objectid.Pool{Namespace: e.Namespace, Name: e.Spec.Pool}] = e.Status.Entry
		}
	}
	return out
}
