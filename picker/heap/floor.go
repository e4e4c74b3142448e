package heap

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Picks is a good floor for a process that does nothing but pick, in bytes.
const Picks = 32 << 20

// floor is one that is held. A heap above half of it is collected as without it.
type floor struct {
	bytes uint64

	mu    sync.Mutex
	base  int // GOGC without the floor
	set   int // what GOGC is because of it; 0: not set yet
	ended bool
}

// KeepAbove has the heap grow to some bytes before its garbage is collected, until ctx ends. 0: as usual. GOGC in the environment takes
// precedence.
func KeepAbove(ctx context.Context, bytes int64) {
	if bytes <= 0 || os.Getenv("GOGC") != "" {
		<-ctx.Done()
		return
	}
	f := &floor{bytes: uint64(bytes)}
	f.adjust()
	<-ctx.Done()
	f.end()
}

// collection is garbage at once, so that its finalizer runs after the next collection. (It is too large to share memory with others.)
type collection struct{ of *floor }

// adjust sets GOGC by what was live at the last collection, and does so again after the next one.
func (f *floor) adjust() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return
	}
	now, live := state()
	if now != f.set {
		f.base = now // set elsewhere, or for the first time
	}
	want := max(f.base, growth(f.bytes, live))
	if want != now {
		debug.SetGCPercent(want)
	}
	f.set = want
	runtime.SetFinalizer(&collection{f}, func(c *collection) { c.of.adjust() })
}

// smallest is the heap below which Go collects no garbage at a GOGC of 100. It changes with GOGC.
const smallest = 4 << 20

// growth is the GOGC with which a heap grows to some bytes, in steps of 25 so that it seldom changes.
func growth(atLeast, live uint64) int {
	live = max(live, smallest)
	if live >= atLeast {
		return 0
	}
	return int((atLeast-live)*100/live) / 25 * 25
}

func (f *floor) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended = true; f.set != f.base {
		debug.SetGCPercent(f.base)
	}
}

// state returns GOGC, and what was live at the last collection, in bytes.
func state() (gogc int, live uint64) {
	samples := []metrics.Sample{{Name: "/gc/gogc:percent"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	return int(samples[0].Value.Uint64()), samples[1].Value.Uint64()
}
