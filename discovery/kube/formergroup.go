package kube

import (
	"sync"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

func bothGroups[T any, P interface {
	*T
	store.Object
}](t *store.Table[P], resource, version string) (today, former *kind) {
	today = custom(t, resource, version)
	today.rivals = newRivals()
	f := *today
	f.table, f.instead = formerGroup{t}, today
	return today, &f
}

type formerGroup struct{ table }

func (formerGroup) Group() string { return inferenceapi.Group }

// rivals handles objects that exist in both the former and the current API group of a kind, as
// during a migration. If both groups have an object with the same name, the current group takes
// precedence.
type rivals struct {
	mu     sync.Mutex
	today  map[string]bool
	former map[string]rival
}

func newRivals() *rivals { return &rivals{today: map[string]bool{}, former: map[string]rival{}} }

type rival struct {
	kind *kind
	obj  store.Object
}

func (r *rivals) arrive(k *kind, obj store.Object, admit func(*kind, store.Object)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := store.ID(obj)
	if k.instead == nil {
		r.today[id] = true
	} else {
		r.former[id] = rival{k, obj.DeepCopyObject().(store.Object)}
		if r.today[id] {
			return
		}
	}
	admit(k, obj)
}

func (r *rivals) leave(k *kind, id string, admit func(*kind, store.Object), dismiss func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k.instead == nil {
		delete(r.today, id)
		if behind, ok := r.former[id]; ok {
			admit(behind.kind, behind.obj.DeepCopyObject().(store.Object))
			return
		}
	} else {
		delete(r.former, id)
		if r.today[id] {
			return
		}
	}
	dismiss()
}
