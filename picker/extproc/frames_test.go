package extproc_test

import (
	"bytes"
	"testing"

	"github.com/penstock-project/penstock/picker/extproc"
)

func TestFrames_BuffersHaveTheLengthThatWasAskedFor(t *testing.T) {
	var f extproc.Frames
	for _, n := range []int{0, 1, 1025, 2 << 10, 2<<10 + 1, 10_000, 16 << 10, 16<<10 + 1, 1 << 20} {
		for range 3 {
			b := f.Get(n)
			if len(*b) != n {
				t.Fatalf("got a buffer of %d bytes, want %d", len(*b), n)
			}
			copy(*b, bytes.Repeat([]byte{1}, n))
			*b = (*b)[:n/2] // as if the frame has padding
			f.Put(b)
		}
	}
	f.Put(new(make([]byte, 3))) // from another pool
	if b := f.Get(3); len(*b) != 3 || cap(*b) < 2<<10 {
		t.Errorf("%d of %d bytes after a buffer of 3 was given, want 3 and at least %d", len(*b), cap(*b), 2<<10)
	}
}

// Frames reuses buffers. Otherwise each prompt would create as much garbage.
func TestFrames_AreUsedAgainWithoutClearing(t *testing.T) {
	var f extproc.Frames
	again := false
	for range 1000 { // under the race detector a sync.Pool drops values
		b := f.Get(10_000)
		again = again || (*b)[5000] == 7
		(*b)[5000] = 7
		f.Put(b)
	}
	if !again {
		t.Error("no buffer was used again as it was")
	}
}
