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
	asleep   atomic.Bool  // nobody follows it; written under Registry.mu
	wake     chan struct{}
	gone     chan struct{} // closed when no Snapshot has it

	refs   int           // guarded by Registry.mu
	looked chan struct{} // closed at the end of the first look since it was asleep; guarded by Registry.mu
}

type sample struct {
	reading
	at         time.Time
	sentBefore uint64 // Load.sent when the scrape began
}

// processStart is the zero of the process's nanoseconds: monotonic, and cheap to keep in an atomic.
var processStart = time.Now()

// Touch says that the pool is picked from: its scrapers go to the fast interval for a second, and those that sleep look
// at once. Called with every pick; all but ten calls a second return at once.
func (s *Snapshot) Touch() {
	now := int64(time.Since(processStart))
	last := s.touched.Load()
	if last != 0 && now-last < int64(hotFor)/10 || !s.touched.CompareAndSwap(last, now) {
		return
	}
	var cold []*source
	for i := range s.Endpoints {
		if src := s.Endpoints[i].source; src != nil && src.hotUntil.Swap(now+int64(hotFor)) < now {
			cold = append(cold, src)
		}
	}
	if len(cold) > 0 {
		s.registry.rouse(cold)
	}
}

// Refresh is for people, who want to see what is true now, also of a pool that nobody picks from: it returns when every
// page has been read that nobody has read for a while, or after patience.
func (s *Snapshot) Refresh(patience time.Duration) {
	s.Touch()
	over := time.NewTimer(patience)
	defer over.Stop()
	for _, looked := range s.registry.looks(s) {
		select {
		case <-looked:
		case <-over.C:
			return
		}
	}
}

// follow scrapes one page until it is gone, nobody has picked for a while, or ctx ends.
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
		if r.rests(src) {
			return nil
		}
		timer.Reset(r.interval(src))
	}
}

// interval is fast while picks flow, and slow while they do not or the page fails.
func (r *Registry) interval(src *source) time.Duration {
	d := r.config.Slow
	if src.failures.Load() == 0 && src.hotUntil.Load() > int64(time.Since(processStart)) {
		d = r.config.Fast
	}
	return time.Duration(float64(d) * (0.9 + 0.2*r.config.Jitter()))
}

// tired says whether nobody has picked for so long that the page is not worth reading.
func (r *Registry) tired(src *source) bool {
	return time.Since(processStart) > time.Duration(src.hotUntil.Load())+r.config.Rest
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
