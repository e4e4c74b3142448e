package status

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// Sources of reports. Others, such as one for each proxy, may have any name.
const (
	Files       = "files"       // the file reader: findings
	Translation = "translation" // conditions as the specification says, and findings
	Supervisor  = "supervisor"  // the Envoys that we run: whether a Gateway serves, and where
)

// order lists the sources; of two that say something of one condition the later one counts. All others come after
// these: proxies, which know what they took.
var order = []string{Files, Translation, Supervisor}

// Locate says where an object is written, or a field of it: "file:line"; empty if it is not known.
type Locate func(owner report.Ref, field string) string

// Board holds the newest report of each source about each object. Safe for use by many.
type Board struct {
	locate Locate

	mu      sync.Mutex
	n       uint64
	sources map[string]map[report.Ref]report.Report
	changed chan struct{} // closed at the next change
	feeds   map[*Feed]struct{}
}

// NewBoard makes an empty Board. locate fills in the source of findings that have none; nil: they stay without.
func NewBoard(locate Locate) *Board {
	if locate == nil {
		locate = func(report.Ref, string) string { return "" }
	}
	return &Board{locate: locate, sources: map[string]map[report.Ref]report.Report{}, changed: make(chan struct{}), feeds: map[*Feed]struct{}{}}
}

// Set puts reports in place of what the source said about the same objects before.
func (b *Board) Set(source string, reports ...report.Report) {
	if len(reports) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.set(source, reports)
	if len(b.feeds) > 0 {
		refs := make([]report.Ref, len(reports))
		for i, r := range reports {
			refs[i] = r.Owner
		}
		b.feed(refs)
	}
}

// Replace puts reports in place of everything that the source said before.
func (b *Board) Replace(source string, reports ...report.Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.sources[source]
	delete(b.sources, source)
	b.set(source, reports)
	if len(b.feeds) == 0 {
		return
	}
	var refs []report.Ref
	now := b.sources[source]
	for ref, old := range before {
		if r, ok := now[ref]; !ok || !reflect.DeepEqual(old, r) {
			refs = append(refs, ref)
		}
	}
	for ref := range now {
		if _, ok := before[ref]; !ok {
			refs = append(refs, ref)
		}
	}
	b.feed(refs)
}

// Remove takes back what the source said about objects.
func (b *Board) Remove(source string, owners ...report.Ref) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range owners {
		delete(b.sources[source], o)
	}
	b.set(source, nil)
	b.feed(owners)
}

func (b *Board) set(source string, reports []report.Report) {
	if b.sources[source] == nil && len(reports) > 0 {
		b.sources[source] = make(map[report.Ref]report.Report, len(reports))
	}
	for _, r := range reports {
		b.sources[source][r.Owner] = r
	}
	b.n++
	close(b.changed)
	b.changed = make(chan struct{})
}

// Wait returns when the Board has changed since revision seen, with the revision that it is at; 0 is the empty Board's.
// It fails only with its context.
func (b *Board) Wait(ctx context.Context, seen uint64) (uint64, error) {
	for {
		b.mu.Lock()
		n, changed := b.n, b.changed
		b.mu.Unlock()
		if n != seen {
			return n, nil
		}
		select {
		case <-ctx.Done():
			return n, ctx.Err()
		case <-changed:
		}
	}
}

// List returns one report an object, sorted by object; findings without an object come under the zero Ref, first.
func (b *Board) List() []report.Report {
	b.mu.Lock()
	parts := map[report.Ref][]report.Report{}
	for _, source := range b.ranked() {
		for ref, r := range b.sources[source] {
			parts[ref] = append(parts[ref], r)
		}
	}
	b.mu.Unlock()
	out := make([]report.Report, 0, len(parts))
	for _, ref := range slices.SortedFunc(maps.Keys(parts), report.Ref.Compare) {
		out = append(out, b.located(merge(ref, parts[ref])))
	}
	return out
}

// Get returns the report about one object; false if nobody says anything.
func (b *Board) Get(ref report.Ref) (report.Report, bool) {
	b.mu.Lock()
	var parts []report.Report
	for _, source := range b.ranked() {
		if r, ok := b.sources[source][ref]; ok {
			parts = append(parts, r)
		}
	}
	b.mu.Unlock()
	return b.located(merge(ref, parts)), len(parts) > 0
}

// Findings counts what is said to users, by severity.
func (b *Board) Findings() map[report.Severity]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[report.Severity]int{}
	for _, reports := range b.sources {
		for _, r := range reports {
			for _, f := range r.Findings {
				out[f.Severity]++
			}
		}
	}
	return out
}

// ranked lists the sources, those that have the last word last.
func (b *Board) ranked() []string {
	names := slices.Sorted(maps.Keys(b.sources))
	rank := func(name string) int {
		if i := slices.Index(order, name); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(names, func(x, y string) int { return rank(x) - rank(y) })
	return names
}

// located gives findings their place in the files.
func (b *Board) located(r report.Report) report.Report {
	for i, f := range r.Findings {
		if f.Source == "" && r.Owner != (report.Ref{}) {
			r.Findings[i].Source = b.locate(r.Owner, f.Field)
		}
	}
	return r
}
