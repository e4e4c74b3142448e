package heap

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func TestMemory_SmallHeapIsCollectedSeldomAndALargeOneAsBefore(t *testing.T) {
	if os.Getenv("GOGC") != "" {
		t.Skip("GOGC is set")
	}
	small := make([]byte, 4<<20)
	defer runtime.KeepAlive(small)
	runtime.GC()
	before, live := state()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		KeepAbove(ctx, int64(8*live))
	}()
	now := func() int { gogc, _ := state(); return gogc }
	poll.Until(t, "a small heap may grow", func() bool { return now() >= 600 && now() <= 800 })
	large := make([]byte, 8*live)
	runtime.GC()
	poll.Until(t, "a large heap is collected as before", func() bool { return now() == before })
	debug.SetGCPercent(50) // set elsewhere meanwhile
	runtime.GC()
	poll.Until(t, "that stays", func() bool { return now() == 50 })
	runtime.KeepAlive(large) // and no longer
	poll.Until(t, "it is small again", func() bool { runtime.GC(); return now() >= 600 })
	cancel()
	<-done
	if got := now(); got != 50 {
		t.Errorf("GOGC %d afterwards, want 50", got)
	}
	debug.SetGCPercent(before)
	if got := growth(32<<20, 1<<10); got*smallest/100 > 32<<20 || got < 600 {
		t.Errorf("of an empty heap: %d, with which Go collects none below %d MiB", got, got*smallest/100>>20)
	}
}
