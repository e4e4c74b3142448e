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
	pageSize   = 100
	mostListed = 2_000_000
	mostEmpty  = 100
	// perObject is the memory that an object takes in addition to its fields, in bytes: names, and
	// entries of maps and indexes.
	perObject = 1 << 10
)

// Budget bounds the memory for objects from several API servers, which other operators run. The
// Share of each API server may use at most half of the bytes that the other Shares do not use. It
// is safe for concurrent use.
type Budget struct {
	bytes int64

	mu   sync.Mutex
	used int64
}

// NewBudget returns a budget of so many bytes.
func NewBudget(bytes int64) *Budget { return &Budget{bytes: bytes} }

// Share returns a new Share for one API server. Share.Close returns the share's bytes to the
// budget.
func (b *Budget) Share() *Share { return &Share{budget: b, readers: map[string]*reader{}} }

// Share bounds the memory for objects from one API server. Each kind may use at most half of the
// bytes that the other kinds do not use. Objects beyond that bound are left out, as if they did not
// exist. A Share is safe for concurrent use.
type Share struct {
	budget *Budget
	page   sync.Mutex // one list response is decoded at a time

	// budget.mu guards the fields below
	used    int64
	readers map[string]*reader
}

// LeftOut counts the kept objects of a kind, and the objects that are left out.
type LeftOut struct {
	Name       string // plural name of the kind
	Kept, Left int
	More       bool // Left is only a lower bound
}

// String returns a phrase such as "7 of 12 services".
func (l LeftOut) String() string {
	more := ""
	if l.More {
		more = "more than "
	}
	return fmt.Sprintf("%s%d of %d %s", more, l.Left, l.Left+l.Kept, l.Name)
}

// LeftOut returns a LeftOut for each kind with objects that are left out, sorted by name.
func (s *Share) LeftOut() (out []LeftOut) {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.readers)) {
		if r := s.readers[name]; r.left > 0 || r.more {
			out = append(out, LeftOut{name, len(r.kept), r.left, r.more})
		}
	}
	return out
}

// Roomy reports whether reading all objects again would leave out fewer of them. Each kind with
// omitted objects must have room: its stored objects and the smallest omitted one together take at
// most half of the kind's bound.
func (s *Share) Roomy() bool {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
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

// Close returns the share's bytes to the budget.
func (s *Share) Close() {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	s.budget.used -= s.used
	s.used = 0
	clear(s.readers)
}

// reader accounts for the objects of one kind. share.budget.mu guards its fields.
type reader struct {
	share *Share
	used  int64
	kept  map[string]int64
	left  int
	more  bool
	least int64 // bytes of the smallest object that was left out; 0: none was seen
}

// The caller holds share.budget.mu.
func (r *reader) most() int64 {
	s := r.share
	return ((s.budget.bytes-(s.budget.used-s.used))/2 - (s.used - r.used)) / 2
}

func (r *reader) take(id string, bytes int64) bool {
	r.share.budget.mu.Lock()
	defer r.share.budget.mu.Unlock()
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

// The caller holds share.budget.mu.
func (r *reader) add(bytes int64) {
	r.used += bytes
	r.share.used += bytes
	r.share.budget.used += bytes
}

func (r *reader) free(id string) bool {
	r.share.budget.mu.Lock()
	defer r.share.budget.mu.Unlock()
	bytes, had := r.kept[id]
	r.add(-bytes)
	delete(r.kept, id)
	return had
}

func (r *reader) count(left int) {
	r.share.budget.mu.Lock()
	defer r.share.budget.mu.Unlock()
	r.left = max(0, r.left+left)
}

// Bound wraps lw so that a reflector receives only the objects of a kind that fit into the share.
// keep returns the form of an object that is kept; nil: the object is not needed.
func (s *Share) Bound(
	name string, lw cache.ListerWatcher, keep func(runtime.Object) runtime.Object,
) cache.ListerWatcher {
	r := &reader{share: s, kept: map[string]int64{}}
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	if old := s.readers[name]; old != nil {
		old.add(-old.used)
	}
	s.readers[name] = r
	return &bounded{cache.ToListerWatcherWithContext(lw), r, keep}
}

type bounded struct {
	lw     cache.ListerWatcherWithContext
	reader *reader
	keep   func(runtime.Object) runtime.Object
}

// IsWatchListSemanticsUnSupported makes reflectors list objects by pages. A watch that delivers all
// existing objects first could not be bounded.
func (b *bounded) IsWatchListSemanticsUnSupported() bool { return true }

func (b *bounded) List(o metav1.ListOptions) (runtime.Object, error) {
	return b.ListWithContext(context.Background(), o)
}

func (b *bounded) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return b.WatchWithContext(context.Background(), o)
}

// ListWithContext returns the objects that fit. It stops after the first page with an object that
// does not fit.
func (b *bounded) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	out, have := &internalversion.List{}, map[string]bool{}
	left, seen, empty, more := 0, 0, 0, false
	b.reader.begin()
	// For version 0, an API server with a watch cache ignores the limit.
	o.ResourceVersion, o.ResourceVersionMatch, o.Limit, o.Continue = "", "", pageSize, ""
	for {
		page, n, err := b.readPage(ctx, &o, func(obj runtime.Object) {
			kept := b.keep(obj)
			if kept == nil {
				return
			}
			if id := idOf(kept); have[id] {
				return // the same object again, which no correct API server lists
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

func (r *reader) begin() {
	r.share.budget.mu.Lock()
	defer r.share.budget.mu.Unlock()
	r.least = 0
}

func (r *reader) listed(have map[string]bool, left int, more bool) {
	r.share.budget.mu.Lock()
	defer r.share.budget.mu.Unlock()
	for id, bytes := range r.kept {
		if !have[id] {
			r.add(-bytes)
			delete(r.kept, id)
		}
	}
	r.left, r.more = left, more
}

// WatchWithContext starts a watch. It reports an object that does not fit as deleted.
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

func idOf(obj runtime.Object) string {
	m, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return objectid.Join(m.GetNamespace(), m.GetName())
}
