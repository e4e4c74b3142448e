package kube

import (
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/penstock-project/penstock/discovery/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// live is what the API server has of an object's status, and of which version of the object.
type live struct {
	uid             types.UID
	resourceVersion string
	status          any // as the kind's statuses.Shape takes it
}

// lives are the live statuses of all objects that have one of ours.
type lives struct {
	mu    sync.Mutex
	all   map[report.Ref]live
	touch func(report.Ref) // told when somebody else may have changed one; may be nil
}

// put notes what arrived. An echo of our own write, or something older, changes nothing.
func (l *lives) put(ref report.Ref, obj store.Object, status any) {
	l.mu.Lock()
	old, ok := l.all[ref]
	now := live{obj.GetUID(), obj.GetResourceVersion(), status}
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
