package endpoint

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/cespare/xxhash/v2"
)

// A page is not read while its load arrives by other means: as what another process has read, or
// from the server itself (Push). Each process publishes what its scrapes show (Config.Read), and
// takes over what the others do (Receive). The process that reads a page goes on to: one that takes
// its readings over waits a quarter longer before it reads the page itself, so that it does so only
// if the other is gone or slow, or if its own picks call for it.

// follow returns how long a page may wait, given how long it may after a scrape, when another
// process has read it age ago.
func follow(least, most, age time.Duration) (time.Duration, time.Duration) {
	return max(0, least-age), max(0, most+most/4-age)
}

// Limits of a reading of another process: those of a page.
const (
	maxValue    = 1e15
	maxAdapters = 1024
	maxSlots    = 1 << 20
)

var errReading = errors.New("not what a metrics page shows")

// valid reports whether a page can show r.
func (r *Reading) valid() bool {
	for _, v := range []float64{r.Queue, r.Running, r.KV, r.PrefillTokens, r.PrefillSeconds, r.Prefills, r.Tokens} {
		if math.IsNaN(v) || v < 0 || v > maxValue {
			return false
		}
	}
	if r.KV > 1 || r.CacheTokens < 0 || r.CacheTokens > maxTokens || len(r.Problem) > maxProblem {
		return false
	}
	if r.Adapters == nil {
		return true
	}
	size := 0
	for _, list := range [][]string{r.Adapters.Running, r.Adapters.Waiting} {
		for _, name := range list {
			size += len(name)
			if name == "" {
				return false
			}
		}
	}
	return size <= pageBuffer && len(r.Adapters.Running)+len(r.Adapters.Waiting) <= maxAdapters &&
		r.Adapters.Max >= 0 && r.Adapters.Max <= maxSlots
}

// Receive takes what another process has read from a server's page. Pages that this process does
// not read are ignored.
func (r *Registry) Receive(addr netip.AddrPort, page uint64, reading Reading, now time.Time) error {
	if !reading.valid() {
		return errReading
	}
	r.receive(addr, reading, now, func(src *source) bool { return src.number == page })
	return nil
}

// Push takes what a server has published of its own load, in place of what its pages show.
func (r *Registry) Push(addr netip.AddrPort, reading Reading, now time.Time) error {
	if !reading.valid() {
		return errReading
	}
	r.receive(addr, reading, now, func(*source) bool { return true })
	return nil
}

// receive stores a reading that is not of a scrape for some of a server's pages, which are not read
// soon.
func (r *Registry) receive(addr netip.AddrPort, reading Reading, now time.Time, of func(*source) bool) {
	load := r.Find(addr)
	if load == nil {
		return
	}
	list := load.sources.Load()
	if list == nil {
		return
	}
	for _, src := range *list {
		if of(src) {
			mark := src.begin()
			src.due.Store(mark.sent + picksPerScrape)
			mark.Succeed(reading, now)
			src.received.Store(sinceStart(now))
		}
	}
}

// Share sets how many processes read the pages: they have one budget.
func (r *Registry) Share(processes int) { r.budget.share.Store(int64(max(processes, 1))) }

// number identifies a page, in all processes: by how it is read, and what is read from it.
func (m *Metrics) number() uint64 {
	return xxhash.Sum64String(fmt.Sprintf("%+v", *m)) // TLS is nil: TLSKey stands for it
}
