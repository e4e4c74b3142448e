package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/penstock-project/penstock/discovery/objectid"
)

const (
	// pageSize is the number of objects that a bounded reader asks for at once.
	pageSize = 100
	// mostListed is the number of objects of a kind that a bounded reader looks at in one list.
	mostListed = 2_000_000
	// mostEmpty is the number of pages without an object that a list may have.
	mostEmpty = 100
	// perObject is what an object costs in bytes beside its own fields: names, and entries of maps
	// and indexes.
	perObject = 1 << 10
)

// Budget bounds the memory of what is read from several API servers that other people run. Each has
// a Share, which is at most half of what the others leave. Safe for concurrent use.
type Budget struct {
	bytes int64

	mu   sync.Mutex
	used int64
}

// NewBudget returns a budget of bytes.
func NewBudget(bytes int64) *Budget { return &Budget{bytes: bytes} }

// Share returns the share of one API server. Close returns its bytes.
func (b *Budget) Share() *Share { return &Share{of: b, readers: map[string]*reader{}} }

// Share is what one API server may take of a Budget. Each kind takes at most half of what the other
// kinds leave, so that none takes the room of all. Objects without room are left out: they count as
// not existing. Safe for concurrent use.
type Share struct {
	of   *Budget
	page sync.Mutex // one list response is decoded at a time

	// With of.mu held.
	used    int64
	readers map[string]*reader
}

// LeftOut are the objects of a kind that have no room.
type LeftOut struct {
	Name       string // of the kind, in the plural
	Kept, Left int
	More       bool // more than Left
}

// String is a phrase such as "7 of 12 services".
func (l LeftOut) String() string {
	more := ""
	if l.More {
		more = "more than "
	}
	return fmt.Sprintf("%s%d of %d %s", more, l.Left, l.Left+l.Kept, l.Name)
}

// LeftOut returns the kinds of which objects are left out, sorted by name.
func (s *Share) LeftOut() (out []LeftOut) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.readers)) {
		if r := s.readers[name]; r.left > 0 || r.more {
			out = append(out, LeftOut{name, len(r.kept), r.left, r.more})
		}
	}
	return out
}

// Roomy returns true if objects are left out that have room now: with the smallest of them, their
// kinds use at most half of what they may. So what is read again because of that leaves out less.
func (s *Share) Roomy() bool {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	left := false
	for _, r := range s.readers {
		if r.left > 0 || r.more {
			left = true
			if r.used+r.least > r.most()/2 {
				return false
			}
		}
	}
	return left
}

// Close returns all bytes to the budget. Readers of the share keep nothing afterwards.
func (s *Share) Close() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.used -= s.used
	s.used = 0
	clear(s.readers)
}

// reader is one kind of a share. Its fields are guarded by share.of.mu.
type reader struct {
	share *Share
	used  int64
	kept  map[string]int64 // bytes by object
	left  int
	more  bool
	least int64 // bytes of the smallest object that had no room; 0: none was seen
}

// most returns what the reader may use. share.of.mu is held.
func (r *reader) most() int64 {
	s := r.share
	return ((s.of.bytes-(s.of.used-s.used))/2 - (s.used - r.used)) / 2
}

// take takes room for an object, in place of what the object has. It returns false if there is
// none.
func (r *reader) take(id string, bytes int64) bool {
	r.share.of.mu.Lock()
	defer r.share.of.mu.Unlock()
	grow := bytes - r.kept[id]
	if grow > 0 && r.used+grow > r.most() {
		if r.least == 0 || bytes < r.least {
			r.least = bytes
		}
		return false
	}
	r.add(grow)
	r.kept[id] = bytes
	return true
}

// add changes what is used. share.of.mu is held.
func (r *reader) add(bytes int64) {
	r.used += bytes
	r.share.used += bytes
	r.share.of.used += bytes
}

// free returns the room of an object, and whether it had any.
func (r *reader) free(id string) bool {
	r.share.of.mu.Lock()
	defer r.share.of.mu.Unlock()
	bytes, had := r.kept[id]
	r.add(-bytes)
	delete(r.kept, id)
	return had
}

func (r *reader) count(left int) {
	r.share.of.mu.Lock()
	defer r.share.of.mu.Unlock()
	r.left = max(0, r.left+left)
}

// Bound limits what a reflector receives of a kind to its room in the share. keep returns what is
// kept of an object, and nil for one that is not needed.
func (s *Share) Bound(
	name string, lw cache.ListerWatcher, keep func(runtime.Object) runtime.Object,
) cache.ListerWatcher {
	r := &reader{share: s, kept: map[string]int64{}}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if old := s.readers[name]; old != nil { // its reflector has ended
		old.add(-old.used)
	}
	s.readers[name] = r
	return &bounded{cache.ToListerWatcherWithContext(lw), r, keep}
}

// bounded is a cache.ListerWatcher of a share.
type bounded struct {
	lw     cache.ListerWatcherWithContext
	reader *reader
	keep   func(runtime.Object) runtime.Object
}

// IsWatchListSemanticsUnSupported makes reflectors list by pages: a stream of initial objects has
// no end that the reader sets.
func (b *bounded) IsWatchListSemanticsUnSupported() bool { return true }

// List implements cache.ListerWatcher.
func (b *bounded) List(o metav1.ListOptions) (runtime.Object, error) {
	return b.ListWithContext(context.Background(), o)
}

// Watch implements cache.ListerWatcher.
func (b *bounded) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return b.WatchWithContext(context.Background(), o)
}

// ListWithContext returns all objects that have room, as one list. It reads page by page, and ends
// with the first page that has no room.
func (b *bounded) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	out, have := &internalversion.List{}, map[string]bool{}
	left, seen, empty, more := 0, 0, 0, false
	b.reader.begin()
	// An API server with a watch cache ignores limits for version 0.
	o.ResourceVersion, o.ResourceVersionMatch, o.Limit, o.Continue = "", "", pageSize, ""
	for {
		page, n, err := b.readPage(ctx, &o, func(obj runtime.Object) {
			kept := b.keep(obj)
			if kept == nil {
				return
			}
			if id := idOf(kept); have[id] {
				return // a second object of this name, which no API server has
			} else if b.reader.take(id, perObject+sizeOf(kept)) {
				have[id] = true
				out.Items = append(out.Items, kept)
			} else {
				left++
			}
		})
		if err != nil {
			return nil, err
		}
		if seen += n; out.ResourceVersion == "" {
			out.ResourceVersion = page.GetResourceVersion()
		}
		if o.Continue = page.GetContinue(); o.Continue == "" {
			break
		}
		if n == 0 {
			if empty++; empty > mostEmpty {
				return nil, fmt.Errorf("a list has more than %d pages without an object", mostEmpty)
			}
		}
		if left > 0 || seen >= mostListed {
			if rest := page.GetRemainingItemCount(); rest != nil && *rest > 0 && *rest < 1<<31 {
				left += int(*rest)
			} else {
				more = true
			}
			break
		}
	}
	b.reader.listed(have, left, more)
	return out, nil
}

// readPage reads one page, which is smaller if the response is too long.
func (b *bounded) readPage(
	ctx context.Context, o *metav1.ListOptions, each func(runtime.Object),
) (page metav1.ListInterface, n int, err error) {
	b.reader.share.page.Lock()
	defer b.reader.share.page.Unlock()
	for {
		list, err := b.lw.ListWithContext(ctx, *o)
		if err != nil {
			if tooLong(err) && o.Limit > 1 {
				o.Limit /= 2
				continue
			}
			return nil, 0, err
		}
		if page, err = meta.ListAccessor(list); err != nil {
			return nil, 0, err
		}
		return page, n, meta.EachListItemWithAlloc(list, func(obj runtime.Object) error {
			n++
			each(obj)
			return nil
		})
	}
}

// begin begins a list.
func (r *reader) begin() {
	r.share.of.mu.Lock()
	defer r.share.of.mu.Unlock()
	r.least = 0
}

// listed ends a list: objects that it does not have are gone.
func (r *reader) listed(have map[string]bool, left int, more bool) {
	r.share.of.mu.Lock()
	defer r.share.of.mu.Unlock()
	for id, bytes := range r.kept {
		if !have[id] {
			r.add(-bytes)
			delete(r.kept, id)
		}
	}
	r.left, r.more = left, more
}

// WatchWithContext implements cache.ListerWatcherWithContext. Objects without room are as if they
// were deleted.
func (b *bounded) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := b.lw.WatchWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	return watch.Filter(w, b.event), nil
}

func (b *bounded) event(in watch.Event) (out watch.Event, pass bool) {
	switch in.Type {
	case watch.Added, watch.Modified, watch.Deleted:
	default:
		return in, true
	}
	kept := b.keep(in.Object)
	if kept != nil && in.Type != watch.Deleted && b.reader.take(idOf(kept), perObject+sizeOf(kept)) {
		return watch.Event{Type: in.Type, Object: kept}, true
	}
	had := b.reader.free(idOf(in.Object))
	switch {
	case kept == nil:
	case in.Type == watch.Added, in.Type == watch.Modified && had:
		b.reader.count(1)
	case in.Type == watch.Deleted && !had:
		b.reader.count(-1)
	}
	if kept == nil {
		kept = in.Object
	}
	return watch.Event{Type: watch.Deleted, Object: kept}, had
}

// idOf is the namespace and the name of an object.
func idOf(obj runtime.Object) string {
	m, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return objectid.Join(m.GetNamespace(), m.GetName())
}
