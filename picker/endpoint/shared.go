package endpoint

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/cespare/xxhash/v2"
)

// A process gets some readings without a scrape: from a peer that read the page (Receive), or from
// the server (Push). It then waits a quarter longer before it reads the page itself. So in the end
// one process reads each page.

func follow(least, most, age time.Duration) (time.Duration, time.Duration) {
	return max(0, least-age), max(0, most+most/4-age)
}

const (
	maxValue    = 1e15
	maxAdapters = 1024
	maxSlots    = 1 << 20
)

var errReading = errors.New("not what a metrics page shows")

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

// Receive stores a peer's reading of one of this process's pages. page is the page's number.
func (r *Registry) Receive(addr netip.AddrPort, page uint64, reading Reading, now time.Time) error {
	if !reading.valid() {
		return errReading
	}
	r.receive(addr, reading, now, func(src *source) bool { return src.number == page })
	return nil
}

// Push stores a reading that a server itself published.
func (r *Registry) Push(addr netip.AddrPort, reading Reading, now time.Time) error {
	if !reading.valid() {
		return errReading
	}
	r.receive(addr, reading, now, func(*source) bool { return true })
	return nil
}

func (r *Registry) receive(addr netip.AddrPort, reading Reading, now time.Time, match func(*source) bool) {
	load := r.Find(addr)
	if load == nil {
		return
	}
	list := load.sources.Load()
	if list == nil {
		return
	}
	for _, src := range *list {
		if match(src) {
			mark := src.begin()
			src.due.Store(mark.sent + picksPerScrape)
			mark.Succeed(reading, now)
			src.received.Store(sinceStart(now))
		}
	}
}

// Share sets the number of processes that share the budget of scrapes.
func (r *Registry) Share(processes int) { r.budget.share.Store(int64(max(processes, 1))) }

func (m *Metrics) number() uint64 {
	return xxhash.Sum64String(fmt.Sprintf("%+v", *m)) // TLS is nil here; Protocol.Key stands for it
}
