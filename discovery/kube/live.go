package kube

import (
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// live is what the API server has of an object's status, and of which version of the object.
type live struct {
	uid             types.UID
	resourceVersion string
	kind            *kind // as which it was read, and is written
	status          any   // as the kind's statuses.Shape takes it
	ending          *ending
}

// lives are the live statuses of all objects that have one of ours.
type lives struct {
	mu    sync.Mutex
	all   map[report.Ref]live
	touch func(report.Ref) // told when somebody else may have changed one; may be nil
}

// put notes what arrived. An echo of our own write, or something older, changes nothing.
func (l *lives) put(ref report.Ref, k *kind, obj store.Object, status any) {
	l.mu.Lock()
	old, ok := l.all[ref]
	now := live{obj.GetUID(), obj.GetResourceVersion(), k, status, endingOf(obj)}
	if ok && old.uid == now.uid && !newer(now.resourceVersion, old.resourceVersion) {
		l.mu.Unlock()
		return
	}
	l.all[ref] = now
	touch := l.touch
	l.mu.Unlock()
	if touch != nil {
		touch(ref)
	}
}

// wrote notes what the API server answered to a write of ours: nobody need look at it.
func (l *lives) wrote(ref report.Ref, obj store.Object, status any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, ok := l.all[ref]; ok && old.uid == obj.GetUID() && newer(obj.GetResourceVersion(), old.resourceVersion) {
		l.all[ref] = live{obj.GetUID(), obj.GetResourceVersion(), old.kind, status, endingOf(obj)}
	}
}

// listen has f told of each object whose status, or which itself, may have changed.
func (l *lives) listen(f func(report.Ref)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.touch = f
}

// again tells of all objects of a kind: what is said of them depends on something else that has changed.
func (l *lives) again(kind string) {
	l.mu.Lock()
	touch := l.touch
	var of []report.Ref
	for ref := range l.all {
		if ref.Kind == kind {
			of = append(of, ref)
		}
	}
	l.mu.Unlock()
	if touch == nil {
		return
	}
	for _, ref := range of {
		touch(ref)
	}
}

func (l *lives) get(ref report.Ref) (live, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, ok := l.all[ref]
	return v, ok
}

func (l *lives) drop(ref report.Ref) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, ref)
}

func (l *lives) refs() []report.Ref {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]report.Ref, 0, len(l.all))
	for ref := range l.all {
		out = append(out, ref)
	}
	return out
}

// newer compares resource versions of one kind, which are numbers that grow (KEP-5504). Where one is none, what comes is new.
func newer(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX != nil || errY != nil || x > y
}
