package fleet_test

import (
	"context"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/penstock-project/penstock/fleet/cluster"
	"github.com/penstock-project/penstock/fleet/render"
)

// memory is a cluster of one namespace and fleet.
type memory struct {
	foreign string // the kind of which there is an object that is not ours

	mu      sync.Mutex
	objects map[cluster.Ref]cluster.Object
	writes  []string // kinds, in order
	looks   int
	tell    func(cluster.Ref)
	n       int
}

func (m *memory) changed(tell func(cluster.Ref)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tell = tell
}

func (m *memory) Objects(namespace, fleet string) (out []cluster.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looks++
	for ref, o := range m.objects {
		if ref.Namespace == namespace && ref.Name == fleet {
			out = append(out, o)
		}
	}
	return out
}

func (m *memory) Apply(_ context.Context, obj render.Object, applied string, _ bool) error {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	if kind == m.foreign {
		return fmt.Errorf("%s %w", kind, cluster.ErrForeign)
	}
	owner := metav1.GetControllerOf(obj)
	ref := cluster.Ref{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	m.mu.Lock()
	o := m.objects[ref]
	m.n++
	o.Ref, o.Fleet, o.Applied, o.Mark, o.UID = ref, obj.GetName(), applied, fmt.Sprint(m.n), "uid"
	o.Owner, o.OwnerName = string(owner.UID), owner.Name
	if kind == "Service" {
		o.Type = "LoadBalancer"
	}
	m.objects[ref] = o
	m.writes = append(m.writes, kind)
	m.mu.Unlock()
	m.tell(ref)
	return nil
}

func (m *memory) Delete(_ context.Context, o cluster.Object) error {
	m.mu.Lock()
	delete(m.objects, o.Ref)
	m.mu.Unlock()
	m.tell(o.Ref)
	return nil
}

// edit is somebody else changing the object of a kind.
func (m *memory) edit(kind string, change func(*cluster.Object)) {
	m.mu.Lock()
	var changed cluster.Ref
	for ref, o := range m.objects {
		if ref.Kind == kind {
			change(&o)
			m.objects[ref], changed = o, ref
		}
	}
	m.mu.Unlock()
	m.tell(changed)
}

func (m *memory) remove(kind string) {
	m.mu.Lock()
	var gone cluster.Ref
	for ref := range m.objects {
		if ref.Kind == kind {
			gone = ref
		}
	}
	delete(m.objects, gone)
	m.mu.Unlock()
	m.tell(gone)
}

func (m *memory) kinds() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []string{}
	for ref := range m.objects {
		out = append(out, ref.Kind)
	}
	slices.Sort(out)
	return out
}

func (m *memory) written() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.writes)
}

func (m *memory) looked() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.looks
}

func raw(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }
