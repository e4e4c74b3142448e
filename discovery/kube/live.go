package kube

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/status/shape"
	"github.com/penstock-project/penstock/discovery/store"
)

// Live has the fields of an object's newest version that a writer of the object's status needs.
type Live struct {
	UID             types.UID
	ResourceVersion string
	Status          any     // a pointer to the kind's status type, as Shape().Take returns it; immutable
	Ending          *Ending // nil, except for a GatewayClass

	kind *kind // the kind in whose version and group the object is read and written
}

// Ending determines whether a GatewayClass may be deleted.
type Ending struct {
	Finalizers []string
	Deleting   bool // the API server accepts no new finalizer
}

// Shape returns the shape of the object's status in the version in which it was read.
func (l Live) Shape() *shape.Shape { return l.kind.status }

func endingOf(obj store.Object) *Ending {
	if _, ok := obj.(*gatewayv1.GatewayClass); !ok {
		return nil
	}
	return &Ending{Finalizers: slices.Clone(obj.GetFinalizers()), Deleting: obj.GetDeletionTimestamp() != nil}
}

// Live returns the newest version of an object; false if the object does not exist, or if Penstock
// writes no status for its kind.
func (s *Source) Live(ref report.Ref) (Live, bool) { return s.lives.get(ref) }

// LiveRefs returns the refs of all objects that Live can return, unsorted.
func (s *Source) LiveRefs() []report.Ref { return s.lives.refs() }

// OnLive sets the function that is called after a watch has delivered a version of an object that
// Patch did not write. The function must not block.
func (s *Source) OnLive(changed func(report.Ref)) { s.lives.listen(changed) }

// Patch sends a merge patch for an object, or for its subresource. live is the result of Live for
// ref. Afterwards, Live returns the version in the API server's response.
func (s *Source) Patch(ctx context.Context, ref report.Ref, live Live, subresource string, body []byte) error {
	k := live.kind
	after, err := s.client.patch(ctx, k, s.version(k), ref.Key(), subresource, body)
	if err != nil {
		return err
	}
	s.lives.wrote(ref, after, k.status.Take(after))
	return nil
}

type lives struct {
	mu      sync.Mutex
	all     map[report.Ref]Live
	changed func(report.Ref)
}

func (l *lives) put(ref report.Ref, k *kind, obj store.Object, status any) {
	l.mu.Lock()
	old, ok := l.all[ref]
	now := Live{obj.GetUID(), obj.GetResourceVersion(), status, endingOf(obj), k}
	if ok && old.UID == now.UID && !newer(now.ResourceVersion, old.ResourceVersion) {
		l.mu.Unlock()
		return
	}
	l.all[ref] = now
	changed := l.changed
	l.mu.Unlock()
	if changed != nil {
		changed(ref)
	}
}

// wrote records the API server's response to a write of this process, without a call of l.changed.
func (l *lives) wrote(ref report.Ref, obj store.Object, status any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, ok := l.all[ref]; ok && old.UID == obj.GetUID() && newer(obj.GetResourceVersion(), old.ResourceVersion) {
		l.all[ref] = Live{obj.GetUID(), obj.GetResourceVersion(), status, endingOf(obj), old.kind}
	}
}

func (l *lives) listen(changed func(report.Ref)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed = changed
}

func (l *lives) invalidate(kind string) {
	l.mu.Lock()
	changed := l.changed
	var refs []report.Ref
	for ref := range l.all {
		if ref.Kind == kind {
			refs = append(refs, ref)
		}
	}
	l.mu.Unlock()
	if changed == nil {
		return
	}
	for _, ref := range refs {
		changed(ref)
	}
}

func (l *lives) get(ref report.Ref) (Live, bool) {
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

// newer reports whether resource version a is newer than b. Resource versions are numbers that grow
// within a kind (KEP-5504). If one of them is no number, newer returns true.
func newer(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX != nil || errY != nil || x > y
}
