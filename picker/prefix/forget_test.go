package prefix

import (
	"net/netip"
	"testing"
)

func TestForget_LeavesWhatOtherPicksHaveSent(t *testing.T) {
	x := New(Config{})
	s := x.Server(key(1))
	short, long := Chain{1, 2, 3}, Chain{1, 2, 3, 4, 5}
	expect := func(what string, want int) {
		t.Helper()
		if got := cachedAt(x, long, key(1)); got != int32(End(want-1)) {
			t.Errorf("%s: %d tokens, want %d blocks", what, got, want)
		}
	}
	x.Add(s, long)
	x.Forget(s, long)
	expect("denied", 0)
	x.Add(s, short)
	x.Add(s, long)
	x.Forget(s, long)
	expect("the longer one denied", 3)
	x.Add(s, long)
	x.Add(s, long)
	x.Forget(s, short)
	x.Forget(s, long)
	expect("the first one denied, and one of two longer ones", 5)
	x.Forget(s, long)
	expect("all denied", 0)
	for range 2 * alwaysUsed {
		x.Add(s, short)
	}
	for range 2 * alwaysUsed {
		x.Forget(s, short)
	}
	expect("sent too often to be counted", 3)
	if x.held.Load() != 3 {
		t.Errorf("%d blocks, want 3", x.held.Load())
	}
}

// A peer's denial without its pick removes a block's predecessor. The next pick adds the
// predecessor again.
func TestForget_WithoutAddIsRepaired(t *testing.T) {
	x := New(Config{})
	s := x.Server(key(1))
	c := Chain{1, 2, 3}
	x.Add(s, c)
	x.Forget(s, c[:1])
	x.Add(s, c)
	if got := cachedAt(x, c, key(1)); got != int32(End(2)) || s.blocks != 3 || x.held.Load() != 3 {
		t.Errorf("%d tokens, %d blocks; want %d and 3", got, s.blocks, End(2))
	}
	s.SetCapacity(1)
	if s.blocks != 0 || x.held.Load() != 0 {
		t.Errorf("%d blocks are left, want none", s.blocks)
	}
}

func TestForget_LeavesWhatASnapshotHas(t *testing.T) {
	x, y := New(Config{}), New(Config{})
	c := Chain{1, 2, 3}
	x.Add(x.Server(key(1)), c)
	s := y.Server(key(1))
	y.Add(s, c[:1])
	x.Snapshot(1<<20, func(key netip.AddrPort, snapshot []byte) { _ = y.Restore(key, snapshot) })
	y.restore()
	y.Forget(s, c[:1])
	y.Add(s, c)
	y.Forget(s, c)
	if got := cachedAt(y, c, key(1)); got != int32(End(2)) {
		t.Errorf("%d tokens are left, want %d", got, End(2))
	}
}
