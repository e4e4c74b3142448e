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

// reclaimEvery is the interval at which the process checks whether it is at rest.
const reclaimEvery = time.Second

const (
	// restBytes is what a process at rest allocates at most between two checks.
	restBytes = 256 << 10
	// burstBytes is what it must have allocated at work since the last return: a collection marks
	// everything that is live. Allocations at rest, such as those for the pings of a thousand
	// proxies, do not count: Go's collector handles them.
	burstBytes = 8 << 20
	// startPercent is by how much the heap may grow between two collections until the process has
	// come to rest for the first time; then it is GOGC's, 100 by default.
	startPercent = 50
)

// room is the percentage of the limit that stays free: Go does not count all that the kernel does,
// pages of the program for instance. Go's guide to its collector recommends 5 to 10.
const room = 10

// KeepWithin sets Go's memory limit so that the process stays within so many bytes. end resets it.
// Below the limit startTight and reclaim act as without one. GOMEMLIMIT takes precedence.
func KeepWithin(bytes int64) (end func()) {
	if bytes <= 0 || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	before := debug.SetMemoryLimit(bytes / 100 * (100 - room))
	return func() { debug.SetMemoryLimit(before) }
}

// CollectTight makes Go collect the heap each time that it has grown by half. It is for a process
// whose live memory is bounded. GOGC takes precedence.
func CollectTight() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(startPercent)
	}
}

// startTight has the garbage of the start collected twice as often as usual, and returns what ends
// that. Everything that stays is allocated then, among garbage, and never moves: of a heap that
// grows to twice what is live, most of the other half would be lost in gaps for good (measured with
// 5,000 routes: 15 MiB, for 0.4 s of CPU). GOGC takes precedence.
func startTight() (end func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(startPercent)
	// What reading has left behind goes first: translation would spread out over the gaps.
	runtime.GC()
	return sync.OnceFunc(func() { debug.SetGCPercent(before) })
}

// reclaim returns memory to the system whenever the process is at rest after a burst: a start, a
// large change, all proxies that connect at once. Go alone keeps what the burst took, several times
// what is live, as long as nothing is allocated: its collector runs when the heap has doubled.
//
// A busy process is left alone, so its memory stays between what is live and twice that; GOGC and
// GOMEMLIMIT set other bounds. rested is called whenever the process is at rest.
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

// burst is what a process has allocated at work and not returned yet. Only a collection finds how
// much of it is garbage.
type burst struct {
	last  uint64 // all that was allocated, at the last look
	bytes uint64
}

// look takes the number of bytes allocated so far, and reports whether the process is at rest, and
// whether that is after a burst.
func (b *burst) look(allocated uint64) (rests, after bool) {
	since := allocated - b.last
	b.last = allocated
	if since >= restBytes {
		b.bytes += since
		return false, false
	}
	return true, b.bytes >= burstBytes
}

// allocated is how many bytes the process has allocated on Go's heap since its start.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
