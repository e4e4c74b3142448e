package status

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-memdb"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store/rows"
)

// Locate returns where an object, or a field of it, is in a file: "file:line"; "" if that is not
// known.
type Locate func(owner report.Ref, field string) string

// WatchSet collects what a reader has read. WatchCtx returns once any of it has changed.
type WatchSet = memdb.WatchSet

// NewWatchSet makes an empty WatchSet.
func NewWatchSet() WatchSet { return memdb.NewWatchSet() }

// streamDebounce is how long nothing must change before Stream emits a document.
const streamDebounce = 200 * time.Millisecond

// Board holds the newest report of each source about each object. It is safe for concurrent use.
// Reports must not be modified after they were passed to it.
type Board struct {
	locate Locate
	db     *memdb.MemDB
	feeds  atomic.Uint64 // how many there have been
}

// NewBoard makes an empty Board. locate adds the source to findings that have none; nil adds
// nothing.
func NewBoard(locate Locate) *Board { return &Board{locate: locate, db: newDB()} }

// write runs change in a write transaction. changed records an object whose reports change;
// followers see it.
func (b *Board) write(change func(t txn, changed func(report.Ref))) {
	t := txn{b.db.Txn(true)}
	defer t.Commit()
	followers := slices.Collect(rows.Walk[follower](t, nil, followerTable, rows.ByID, nil))
	change(t, func(ref report.Ref) {
		for _, f := range followers {
			rows.Must(t.Insert(unseenTable, &unseen{f.id, ref}))
		}
	})
}

// Set replaces what a source reported about the objects that own the reports. A source uses either
// Set and Remove, or Replace.
func (b *Board) Set(source string, reports ...report.Report) {
	if len(reports) == 0 {
		return
	}
	b.write(func(t txn, changed func(report.Ref)) {
		for _, r := range reports {
			if t.insert(&entry{source, false, r}) {
				changed(r.Owner)
			}
		}
	})
}

// Replace replaces everything that a source reported before.
func (b *Board) Replace(source string, reports ...report.Report) {
	b.write(func(t txn, changed func(report.Ref)) {
		stays := make(map[report.Ref]bool, len(reports))
		for _, r := range reports {
			stays[r.Owner] = true
			if t.insert(&entry{source, true, r}) {
				changed(r.Owner)
			}
		}
		for _, e := range slices.Collect(rows.Walk[entry](t, nil, reportTable, bySource, rows.Key(source))) {
			if !stays[e.report.Owner] {
				rows.Must(t.Delete(reportTable, e))
				changed(e.report.Owner)
			}
		}
		if source == Files && b.locate != nil {
			// the files were read again: locate may return other lines for equal reports
			rows.Must(t.Insert(placeTable, &places{}))
		}
	})
}

// Remove drops what a source reported about objects.
func (b *Board) Remove(source string, owners ...report.Ref) {
	if len(owners) == 0 {
		return
	}
	b.write(func(t txn, changed func(report.Ref)) {
		for _, owner := range owners {
			if n, err := t.DeleteAll(reportTable, rows.ByID, entryKey(owner, source)); err == nil && n > 0 {
				changed(owner)
			}
		}
	})
}

// List returns one report for each object, merged from all sources and sorted by object; findings
// without an object come first, under the zero Ref. ws, which may be nil, fires when List would
// return something else.
func (b *Board) List(ws WatchSet) (out []report.Report) {
	t := txn{b.db.Txn(false)}
	t.watch(ws)
	var parts []*entry // of one object
	for e := range rows.Walk[entry](t, nil, reportTable, rows.ByID, nil) {
		if len(parts) > 0 && parts[0].report.Owner != e.report.Owner {
			out = append(out, b.located(merge(parts)))
			parts = parts[:0]
		}
		parts = append(parts, e)
	}
	if len(parts) > 0 {
		out = append(out, b.located(merge(parts)))
	}
	return out
}

// Get returns the report about one object, merged from all sources; false if no source reports on
// it.
func (b *Board) Get(ref report.Ref) (report.Report, bool) {
	parts := slices.Collect(rows.Walk[entry](txn{b.db.Txn(false)}, nil, reportTable, rows.ByID, appendRef(nil, ref)))
	if len(parts) == 0 {
		return report.Report{Owner: ref}, false
	}
	return b.located(merge(parts)), true
}

// Findings counts the findings of all sources by severity.
func (b *Board) Findings() map[report.Severity]int {
	out := map[report.Severity]int{}
	for e := range rows.Walk[entry](txn{b.db.Txn(false)}, nil, reportTable, rows.ByID, nil) {
		for _, f := range e.report.Findings {
			out[f.Severity]++
		}
	}
	return out
}

// located adds to findings where their object is in the files.
func (b *Board) located(r report.Report) report.Report {
	if b.locate == nil || r.Owner == (report.Ref{}) {
		return r
	}
	for i, f := range r.Findings {
		if f.Source == "" {
			r.Findings[i].Source = b.locate(r.Owner, f.Field)
		}
	}
	return r
}

// Settle waits until List has returned the same for a debounce time. It fails only with its
// context.
func (b *Board) Settle(ctx context.Context, debounce time.Duration) error {
	for {
		ws := NewWatchSet()
		txn{b.db.Txn(false)}.watch(ws)
		quiet, cancel := context.WithTimeout(ctx, debounce)
		unchanged := ws.WatchCtx(quiet) != nil
		cancel()
		if err := ctx.Err(); unchanged || err != nil {
			return err
		}
	}
}

// Stream calls emit with the document of the whole board as soon as it has settled, and again after
// each change, until ctx ends or emit fails. What holds only between two steps of one change is
// thus not shown.
func (b *Board) Stream(ctx context.Context, controller string, emit func(*Document) error) error {
	var last *Document
	for {
		if err := b.Settle(ctx, streamDebounce); err != nil {
			return err
		}
		ws := NewWatchSet()
		last = NewDocument(b.List(ws), controller, last, time.Now())
		if err := emit(last); err != nil {
			return err
		}
		if err := ws.WatchCtx(ctx); err != nil {
			return err
		}
	}
}
