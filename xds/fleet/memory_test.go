package fleet_test

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/penstock-project/penstock/xds/fleet/apply"
	"github.com/penstock-project/penstock/xds/fleet/render"
)

type memory struct {
	conflicting string // kind of an object that exists without Penstock's label

	mu      sync.Mutex
	objects map[apply.Ref]apply.Object
	writes  []string // kinds, in order
	looks   int
	notify  func(apply.Ref)
	n       int
}

func (m *memory) changed(notify func(apply.Ref)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notify = notify
}

func (m *memory) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conflicting = ""
}

func (m *memory) Objects(namespace, fleet string) (out []apply.Object) {
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
	m.mu.Lock()
	taken := kind == m.conflicting
	m.mu.Unlock()
	if taken {
		return fmt.Errorf("%s %w", kind, apply.ErrNotOwned)
	}
	owner := metav1.GetControllerOf(obj)
	ref := apply.Ref{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	m.mu.Lock()
	o := m.objects[ref]
	m.n++
	o.Ref, o.Fleet, o.Applied, o.Mark, o.UID = ref, obj.GetName(), applied, fmt.Sprint(m.n), "uid"
	o.Owner, o.OwnerName = string(owner.UID), owner.Name
	if s, ok := obj.(*corev1.Service); ok {
		if err := unchanged(o, s); err != nil {
			m.mu.Unlock()
			return fmt.Errorf("apply Service %s: %w", s.Name, err)
		}
		o.Type = s.Spec.Type
		if c := s.Spec.LoadBalancerClass; c != nil {
			o.Class = *c
		}
	}
	m.objects[ref] = o
	m.writes = append(m.writes, kind)
	m.mu.Unlock()
	m.notify(ref)
	return nil
}

func unchanged(there apply.Object, wanted *corev1.Service) error {
	var causes field.ErrorList
	spec, class := field.NewPath("spec"), wanted.Spec.LoadBalancerClass
	if there.Type == corev1.ServiceTypeLoadBalancer && there.Type == wanted.Spec.Type && there.Class != "" &&
		(class == nil || *class != there.Class) {
		causes = append(causes, field.Invalid(spec.Child("loadBalancerClass"), class, "may not change once set"))
	}
	if ip := wanted.Spec.ClusterIP; ip != "" && len(there.ClusterIPs) > 0 && there.ClusterIPs[0] != ip {
		causes = append(causes, field.Invalid(spec.Child("clusterIPs").Index(0), ip, "may not change once set"))
	}
	if len(causes) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, wanted.Name, causes)
}

func (m *memory) Delete(_ context.Context, o apply.Object) error {
	m.mu.Lock()
	delete(m.objects, o.Ref)
	m.mu.Unlock()
	m.notify(o.Ref)
	return nil
}

func (m *memory) edit(kind string, change func(*apply.Object)) {
	m.mu.Lock()
	var changed apply.Ref
	for ref, o := range m.objects {
		if ref.Kind == kind {
			change(&o)
			m.objects[ref], changed = o, ref
		}
	}
	m.mu.Unlock()
	m.notify(changed)
}

func (m *memory) remove(kind string) {
	m.mu.Lock()
	var gone apply.Ref
	for ref := range m.objects {
		if ref.Kind == kind {
			gone = ref
		}
	}
	delete(m.objects, gone)
	m.mu.Unlock()
	m.notify(gone)
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

func (m *memory) typed() (typ corev1.ServiceType) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for ref, o := range m.objects {
		if ref.Kind == "Service" {
			typ = o.Type
		}
	}
	return typ
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
