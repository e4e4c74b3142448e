package status

import (
	"context"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-memdb"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store/rows"
)

// Locate returns the position of an object or of its field as "file:line"; "": unknown.
type Locate func(owner report.Ref, field string) string

// WatchSet watches the results of the methods that it is passed to. WatchCtx returns once a result
// may have changed.
type WatchSet = memdb.WatchSet

// NewWatchSet makes an empty WatchSet.
func NewWatchSet() WatchSet { return memdb.NewWatchSet() }

const streamDebounce = 200 * time.Millisecond

// Board holds the newest report of each source (sources.go) about each object. It is safe for
// concurrent use. A caller must not modify a report after passing it to the Board.
type Board struct {
	locate Locate
	db     *memdb.MemDB
	feeds  atomic.Uint64
}

// NewBoard makes an empty Board. If locate is not nil, the Board calls it to set a missing Source
// of a finding.
func NewBoard(locate Locate) *Board { return &Board{locate: locate, db: newDB()} }

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

// Set replaces a source's reports about the owners of reports. A source calls either Set and
// Remove, or only Replace.
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

// Replace replaces all reports of a source.
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
			// The objects of unchanged reports may have moved to other lines of their files.
			rows.Must(t.Insert(placeTable, &places{}))
		}
	})
}

// Remove drops a source's reports about objects.
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

// List returns one merged report for each object, sorted by object. Findings without an object come
// first, in a report of the zero Ref. ws, which may be nil, fires when the result may have changed.
func (b *Board) List(ws WatchSet) (out []report.Report) {
	t := txn{b.db.Txn(false)}
	t.watch(ws)
	var parts []*entry
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

// Get returns the merged report about an object, or false without a report.
func (b *Board) Get(ref report.Ref) (report.Report, bool) {
	parts := slices.Collect(rows.Walk[entry](txn{b.db.Txn(false)}, nil, reportTable, rows.ByID, appendRef(nil, ref)))
	if len(parts) == 0 {
		return report.Report{Owner: ref}, false
	}
	return b.located(merge(parts)), true
}

// Findings counts findings by severity.
func (b *Board) Findings() map[report.Severity]int {
	out := map[report.Severity]int{}
	for e := range rows.Walk[entry](txn{b.db.Txn(false)}, nil, reportTable, rows.ByID, nil) {
		for _, f := range e.report.Findings {
			out[f.Severity]++
		}
	}
	return out
}

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

// Settle waits until the board has not changed for the duration debounce.
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

// Stream calls emit with the board's document at once and after each change, once the board has
// settled. So no document has only half of a change. It returns when ctx ends or emit fails.
// written may be nil. Stream detects a changed result of written within two seconds.
func (b *Board) Stream(ctx context.Context, controller string, written Written, emit func(*Document) error) error {
	var last *Document
	var again time.Duration
	if written != nil {
		again = writtenInterval
	}
	return b.follow(ctx, again, func(all []report.Report) error {
		doc := NewDocument(all, controller, last, time.Now())
		doc.replace(written, controller)
		if reflect.DeepEqual(doc, last) {
			return nil
		}
		last = doc
		return emit(last)
	})
}

const writtenInterval = 2 * time.Second

// StreamFindings is like Stream, but emits only findings.
func (b *Board) StreamFindings(ctx context.Context, emit func([]report.Finding) error) error {
	return b.follow(ctx, 0, func(all []report.Report) error { return emit(findings(all)) })
}

// follow calls emit with all reports, at once and after each change. It also calls emit if nothing
// has changed for the duration again, unless again is 0.
func (b *Board) follow(ctx context.Context, again time.Duration, emit func([]report.Report) error) error {
	for {
		if err := b.Settle(ctx, streamDebounce); err != nil {
			return err
		}
		ws := NewWatchSet()
		if err := emit(b.List(ws)); err != nil {
			return err
		}
		wait, cancel := ctx, context.CancelFunc(func() {})
		if again > 0 {
			wait, cancel = context.WithTimeout(ctx, again)
		}
		_ = ws.WatchCtx(wait)
		cancel()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
