package endpoint

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"
)

// maxPage is how many bytes of a metrics page are read.
const maxPage = 8 << 20

// hotFor is how long a pick keeps its pool's scrapers at the fast interval.
const hotFor = time.Second

type sourceKey struct {
	addr    netip.AddrPort
	metrics Metrics
}

// source is one metrics page and its last sample.
type source struct {
	key        sourceKey
	url        string
	load       *Load
	staleAfter int64
	maxAge     time.Duration

	sample   atomic.Pointer[sample]
	failures atomic.Int64 // in a row
	hotUntil atomic.Int64 // end of the fast interval, in nanoseconds since processStart
	idle     atomic.Bool  // it has no scraper; written under Registry.mu

	scrapeNow chan struct{}
	gone      chan struct{} // closed when no Snapshot has it

	refs    int           // guarded by Registry.mu
	scraped chan struct{} // closed at the end of the first scrape since it was idle; guarded by Registry.mu
}

type sample struct {
	reading
	at         time.Time
	sentBefore uint64 // Load.sent when the scrape began
}

// processStart is the zero of times kept in atomics, as monotonic nanoseconds.
var processStart = time.Now()

// MarkUsed records a pick from the pool: its scrapers use the fast interval for a second, and idle ones scrape at once. It
// is called with every pick; all but ten calls a second return at once.
func (s *Snapshot) MarkUsed() {
	now := int64(time.Since(processStart))
	last := s.used.Load()
	if last != 0 && now-last < int64(hotFor)/10 || !s.used.CompareAndSwap(last, now) {
		return
	}
	var cold []*source
	for i := range s.Endpoints {
		if src := s.Endpoints[i].source; src != nil && src.hotUntil.Swap(now+int64(hotFor)) < now {
			cold = append(cold, src)
		}
	}
	if len(cold) > 0 {
		s.registry.resume(cold)
	}
}

// Refresh has the idle pages of a pool scraped, so that its endpoints can be shown as they are now. It returns when all have
// been scraped, or after timeout.
func (s *Snapshot) Refresh(timeout time.Duration) {
	s.MarkUsed()
	expired := time.NewTimer(timeout)
	defer expired.Stop()
	for _, scraped := range s.registry.pending(s) {
		select {
		case <-scraped:
		case <-expired.C:
			return
		}
	}
}

// scrapeUntilIdle scrapes one page until it is removed or idle, or ctx ends.
func (r *Registry) scrapeUntilIdle(ctx context.Context, src *source) {
	var page bytes.Buffer
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-src.gone:
			return
		case <-src.scrapeNow:
		case <-timer.C:
		}
		if err := r.scrape(ctx, src, &page); err != nil {
			if ctx.Err() != nil {
				return
			}
			src.failures.Add(1)
			r.failures.Add(1)
		} else {
			src.failures.Store(0)
		}
		if r.finishScrape(src) {
			return
		}
		timer.Reset(r.interval(src))
	}
}

// interval returns the fast interval while the pool has picks, and the slow one otherwise or while scrapes fail.
func (r *Registry) interval(src *source) time.Duration {
	d := r.config.Slow
	if src.failures.Load() == 0 && src.hotUntil.Load() > int64(time.Since(processStart)) {
		d = r.config.Fast
	}
	return time.Duration(float64(d) * (0.9 + 0.2*r.config.Jitter()))
}

func (r *Registry) scrape(ctx context.Context, src *source, page *bytes.Buffer) error {
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, src.url, nil)
	if err != nil {
		return fmt.Errorf("metrics page: %w", err)
	}
	next := &sample{sentBefore: src.load.sent.Load()}
	response, err := r.config.Transport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("metrics page: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("metrics page %s: status %d", src.url, response.StatusCode)
	}
	page.Reset()
	if _, err := page.ReadFrom(io.LimitReader(response.Body, maxPage)); err != nil {
		return fmt.Errorf("metrics page: %w", err)
	}
	if next.reading, err = parsePage(page.Bytes(), src.key.metrics); err != nil {
		return fmt.Errorf("metrics page %s: %w", src.url, err)
	}
	next.at = time.Now()
	src.sample.Store(next)
	return nil
}
