package status

import (
	"context"
	"slices"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// Feed streams the objects whose report changes to one reader, each once however often it changed. It never blocks the board. Only
// one goroutine may call Next.
type Feed struct {
	board *Board
	id    uint64
	began bool // Next has returned all objects that were on the board
}

// Follow starts a feed, which begins with every object that is on the board.
func (b *Board) Follow() *Feed {
	f := &Feed{board: b, id: b.feeds.Add(1)}
	b.write(func(t txn, _ func(report.Ref)) { must(t.Insert(followerTable, &follower{f.id})) })
	return f
}

// Next waits until reports have changed, and returns their objects, sorted. It fails only with its context.
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

// take removes and returns the objects that were not seen yet. If there are none, ws fires once there are.
func (f *Feed) take(ws WatchSet) (refs []report.Ref) {
	f.board.write(func(t txn, _ func(report.Ref)) {
		rows, err := t.Get(unseenTable, byID+byPrefix, idKey(f.id))
		must(err)
		ws.Add(rows.WatchCh())
		for _, u := range slices.Collect(walk[unseen](t, unseenTable, byID, idKey(f.id))) {
			refs = append(refs, u.owner)
			must(t.Delete(unseenTable, u))
		}
		if !f.began {
			f.began = true
			for e := range walk[entry](t, reportTable, byID, nil) {
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
		must(t.Delete(followerTable, &follower{f.id}))
		_, err := t.DeleteAll(unseenTable, byID+byPrefix, idKey(f.id))
		must(err)
	})
}
