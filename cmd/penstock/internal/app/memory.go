package app

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// reclaimEvery is the interval of checks whether the process rests.
const reclaimEvery = time.Second

const (
	// restBytes is the most that a process at rest allocates between checks.
	restBytes = 256 << 10
	// burstBytes is the least that a process allocates in a burst. A collection marks everything
	// that is live, so smaller amounts, such as pings of a thousand proxies, are left to Go.
	burstBytes = 8 << 20
	// startPercent is the growth of the heap between collections, in percent, until the process is
	// first at rest. Afterwards GOGC applies, 100 by default.
	startPercent = 50
)

// room is the percentage of the limit that stays free: the kernel counts memory that Go does not
// count, such as pages of the program. Go's guide to its collector recommends 5 to 10.
const room = 10

// KeepWithin sets Go's memory limit below bytes, the limit of the process; end resets it.
// GOMEMLIMIT takes precedence.
func KeepWithin(bytes int64) (end func()) {
	if bytes <= 0 || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	before := debug.SetMemoryLimit(bytes / 100 * (100 - room))
	return func() { debug.SetMemoryLimit(before) }
}

// CollectTight makes Go collect when the heap has grown by half, for a process with bounded live
// memory. GOGC takes precedence.
func CollectTight() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(startPercent)
	}
}

// startTight makes Go collect twice as often as usual until end is called. At the start, objects
// that stay are allocated among garbage, and never move: the gaps between them are lost. With 5,000
// routes this saves 15 MiB, for 0.4 s of CPU. GOGC takes precedence.
func startTight() (end func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(startPercent)
	// Collect the garbage of reading first. Otherwise translation allocates its objects between it.
	runtime.GC()
	return sync.OnceFunc(func() { debug.SetGCPercent(before) })
}

// reclaim returns memory to the system when the process comes to rest after a burst. Go alone would
// keep several times the live memory, because its collector runs only when the heap has doubled. It
// leaves a busy process to GOGC and GOMEMLIMIT. It calls rested at each check that finds the
// process at rest.
func reclaim(ctx context.Context, rested func()) error {
	tick := time.NewTicker(reclaimEvery)
	defer tick.Stop()
	var b burst
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		rests, after := b.look(allocated())
		if after {
			debug.FreeOSMemory()
			b = burst{last: allocated()}
		}
		if rests {
			rested()
		}
	}
}

// burst counts the bytes that were allocated since memory was last returned. Only a collection
// shows how many of them are garbage.
type burst struct {
	last  uint64 // bytes allocated until the last look
	bytes uint64
}

// look receives the number of bytes allocated so far. rests reports whether the process is at rest,
// and after whether a burst came before.
func (b *burst) look(allocated uint64) (rests, after bool) {
	since := allocated - b.last
	b.last = allocated
	if since >= restBytes {
		b.bytes += since
		return false, false
	}
	return true, b.bytes >= burstBytes
}

// allocated is the number of bytes allocated on Go's heap since the start.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
