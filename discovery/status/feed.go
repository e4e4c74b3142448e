package status

import (
	"context"
	"slices"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store/rows"
)

// Feed streams the refs of objects whose reports changed to one reader. It returns an object once,
// even after several changes. It never blocks the board. Only one goroutine may call Next.
type Feed struct {
	board *Board
	id    uint64
	began bool
}

// Follow starts a Feed. Its first call of Next also returns every object on the board.
func (b *Board) Follow() *Feed {
	f := &Feed{board: b, id: b.feeds.Add(1)}
	b.write(func(t txn, _ func(report.Ref)) { rows.Must(t.Insert(followerTable, &follower{f.id})) })
	return f
}

// Next waits for changes, and returns the sorted refs of the objects whose reports changed. It
// fails only if ctx ends.
func (f *Feed) Next(ctx context.Context) ([]report.Ref, error) {
	for {
		ws := NewWatchSet()
		refs := f.take(ws)
		if len(refs) > 0 {
			return refs, nil
		}
		if err := ws.WatchCtx(ctx); err != nil {
			return nil, err
		}
	}
}

func (f *Feed) take(ws WatchSet) (refs []report.Ref) {
	f.board.write(func(t txn, _ func(report.Ref)) {
		for _, u := range slices.Collect(rows.Walk[unseen](t, ws, unseenTable, rows.ByID, idKey(f.id))) {
			refs = append(refs, u.owner)
			rows.Must(t.Delete(unseenTable, u))
		}
		if !f.began {
			f.began = true
			for e := range rows.Walk[entry](t, nil, reportTable, rows.ByID, nil) {
				refs = append(refs, e.report.Owner)
			}
		}
	})
	slices.SortFunc(refs, report.Ref.Compare)
	return slices.Compact(refs)
}

// Close ends the feed.
func (f *Feed) Close() {
	f.board.write(func(t txn, _ func(report.Ref)) {
		rows.Must(t.Delete(followerTable, &follower{f.id}))
		for _, u := range slices.Collect(rows.Walk[unseen](t, nil, unseenTable, rows.ByID, idKey(f.id))) {
			rows.Must(t.Delete(unseenTable, u))
		}
	})
}
