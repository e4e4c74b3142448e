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

// maxPage bounds a metrics page, in bytes; what is beyond is not read.
const maxPage = 8 << 20

// hotFor is how long a pick keeps its pool's scrapers at the fast interval.
const hotFor = time.Second

type sourceKey struct {
	addr    netip.AddrPort
	metrics Metrics
}

// source is one metrics page and what it said last.
type source struct {
	key        sourceKey
	url        string
	load       *Load
	staleAfter int64
	maxAge     time.Duration

	sample   atomic.Pointer[sample]
	failures atomic.Int64 // in a row
	hotUntil atomic.Int64 // nanoseconds of the process
	wake     chan struct{}
	gone     chan struct{} // closed when no Snapshot has it

	refs    int  // guarded by Registry.mu
	started bool // guarded by Registry.mu
}

type sample struct {
	reading
	at         time.Time
	sentBefore uint64 // Load.sent when the scrape began
}

// processStart is the zero of the process's nanoseconds: monotonic, and cheap to keep in an atomic.
var processStart = time.Now()

// Touch says that the pool is picked from: its scrapers go to the fast interval for a second. Called with every pick; all
// but ten calls a second return at once.
func (s *Snapshot) Touch() {
	now := int64(time.Since(processStart))
	last := s.touched.Load()
	if last != 0 && now-last < int64(hotFor)/10 || !s.touched.CompareAndSwap(last, now) {
		return
	}
	for i := range s.Endpoints {
		if src := s.Endpoints[i].source; src != nil {
			if was := src.hotUntil.Swap(now + int64(hotFor)); was < now {
				select {
				case src.wake <- struct{}{}:
				default:
				}
			}
		}
	}
}

// follow scrapes one page until it is gone or ctx ends.
func (r *Registry) follow(ctx context.Context, src *source) error {
	var page bytes.Buffer
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-src.gone:
			return nil
		case <-src.wake:
		case <-timer.C:
		}
		if err := r.scrape(ctx, src, &page); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			src.failures.Add(1)
			r.failures.Add(1)
		} else {
			src.failures.Store(0)
		}
		timer.Reset(r.interval(src))
	}
}

// longestPause is how long a page that fails is left alone at most, while nobody picks from its pool.
const longestPause = 30 * time.Second

// interval is fast while picks flow and slow while they do not. A page that fails is asked slowly even then, and while
// nobody picks from its pool ever more seldom: thousands of servers that are away must not cost a core.
func (r *Registry) interval(src *source) time.Duration {
	d, failures := r.config.Slow, src.failures.Load()
	hot := src.hotUntil.Load() > int64(time.Since(processStart))
	switch {
	case hot && failures == 0:
		d = r.config.Fast
	case !hot && failures > 0:
		d = max(d, min(d<<min(failures-1, 10), longestPause))
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
