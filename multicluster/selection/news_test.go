package selection

import (
	"slices"
	"testing"
)

func TestSelection_ReportHasNewBlocksNewestPromptFirst(t *testing.T) {
	n := NewNews(1, 12)
	take := func() []uint64 {
		out, dropped := n.Take(nil)
		if dropped > 0 {
			t.Errorf("%d blocks were dropped, want 0", dropped)
		}
		return out
	}
	n.Add([]uint64{1, 2, 3})
	n.Add([]uint64{1, 2, 4})
	n.Add([]uint64{1, 2, 4})
	if got := take(); !slices.Equal(got, []uint64{4, 1, 2, 3}) {
		t.Errorf("news: got %v, want 4 1 2 3", got)
	}
	n.Add([]uint64{1, 2, 5})
	n.Add([]uint64{1, 2, 6})
	if got := take(); !slices.Equal(got, []uint64{6, 5}) {
		t.Errorf("news: got %v, want 6 5", got)
	}
	// Blocks 1 and 2 are reported again, because other blocks have filled half of the cache since
	// they were reported.
	n.Add([]uint64{1, 2, 7})
	n.Add([]uint64{1, 2, 7})
	if got := take(); !slices.Equal(got, []uint64{1, 2, 7}) {
		t.Errorf("news: got %v, want 1 2 7", got)
	}
	if got := take(); len(got) != 0 {
		t.Errorf("news: got %v, want none", got)
	}
}

func TestSelection_ReportOfManyBlocksIsBounded(t *testing.T) {
	n := NewNews(1, 1<<20)
	n.Add(chain(1, 5000))
	if out, dropped := n.Take(nil); len(out) != MaxReportBlocks || dropped != 5000-MaxReportBlocks {
		t.Errorf("%d blocks, %d dropped, want %d and %d", len(out), dropped, MaxReportBlocks, 5000-MaxReportBlocks)
	}
	n.Add(chain(1, 5000))
	if out, _ := n.Take(nil); len(out) != 5000-MaxReportBlocks {
		t.Errorf("%d blocks, want %d", len(out), 5000-MaxReportBlocks)
	}
}
