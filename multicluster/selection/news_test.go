package selection

import (
	"slices"
	"testing"
)

func TestSelection_ReportHasNewBlocksNewestPromptFirst(t *testing.T) {
	n := NewNews(12)
	n.Add([]uint64{1, 2, 3})
	n.Add([]uint64{1, 2, 4})
	n.Add([]uint64{1, 2, 4})
	if got := n.Take(); !slices.Equal(got, []uint64{4, 1, 2, 3}) {
		t.Errorf("news: got %v, want 4 1 2 3", got)
	}
	n.Add([]uint64{1, 2, 5})
	n.Add([]uint64{1, 2, 6})
	if got := n.Take(); !slices.Equal(got, []uint64{6, 5}) {
		t.Errorf("news: got %v, want 6 5", got)
	}
	// Blocks 1 and 2 are reported again, because other blocks have filled half of the cache since
	// they were reported.
	n.Add([]uint64{1, 2, 7})
	n.Add([]uint64{1, 2, 7})
	if got := n.Take(); !slices.Equal(got, []uint64{1, 2, 7}) {
		t.Errorf("news: got %v, want 1 2 7", got)
	}
	if got := n.Take(); len(got) != 0 {
		t.Errorf("news: got %v, want none", got)
	}
}

func TestSelection_ReportOfManyBlocksIsBounded(t *testing.T) {
	n := NewNews(1 << 20)
	n.Add(chain(1, 5000))
	if out := n.Take(); len(out) != MaxReportBlocks {
		t.Errorf("%d blocks, want %d", len(out), MaxReportBlocks)
	}
	n.Add(chain(1, 5000))
	if out := n.Take(); len(out) != 5000-MaxReportBlocks {
		t.Errorf("%d blocks, want %d", len(out), 5000-MaxReportBlocks)
	}
}
