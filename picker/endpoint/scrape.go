package endpoint

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Limits of a metrics page, in bytes.
const (
	DefaultMaxPage = 1 << 20
	LargestMaxPage = 8 << 20
)

// maxHeader is how many bytes of a response's header are read.
const maxHeader = 64 << 10

// hotFor is how long a pick keeps its pool's scrapers at the fast interval.
const hotFor = time.Second

// A scrape that takes longer than the fast interval is followed by a pause of a multiple of that time: a server that is slow, or
// fails once, keeps a fresh sample. One that is stale after several failures occupies a buffer of the registry for a
// sixteenth of the time.
const (
	pauseAfterSlow  = 2
	pauseAfterStale = 15
)

var errLargePage = errors.New("the page is larger than its limit")

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
	failures atomic.Int64           // in a row
	problem  atomic.Pointer[string] // of the last scrape; nil if it succeeded
	hotUntil atomic.Int64           // end of the fast interval, in nanoseconds since processStart
	idle     atomic.Bool            // it has no scraper; written under Registry.mu

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
	timer := time.NewTimer(0)
	defer timer.Stop()
	scrapeNow := src.scrapeNow
	for {
		select {
		case <-ctx.Done():
			return
		case <-src.gone:
			return
		case <-scrapeNow:
		case <-timer.C:
		}
		var page *bufio.Reader
		select {
		case <-ctx.Done():
			return
		case <-src.gone:
			return
		case page = <-r.buffers:
		}
		if page == nil { // its first use
			page = bufio.NewReaderSize(nil, pageBuffer)
		}
		began := time.Now()
		err := r.scrape(ctx, src, page)
		took := time.Since(began)
		page.Reset(nil)
		r.buffers <- page
		if ctx.Err() != nil {
			return
		}
		r.record(src, err)
		if r.finishScrape(src) {
			return
		}
		wait, pause := r.interval(src, took)
		if scrapeNow = src.scrapeNow; pause { // a pick does not end it
			scrapeNow = nil
		}
		timer.Reset(wait)
	}
}

// record stores the result of a scrape.
func (r *Registry) record(src *source, err error) {
	if err == nil {
		src.failures.Store(0)
		src.problem.Store(nil)
		return
	}
	text := err.Error()
	src.problem.Store(&text)
	src.failures.Add(1)
	r.failures.Add(1)
}

// interval returns the fast interval while the pool has picks, and the slow one otherwise or while scrapes fail. If the last
// scrape was slow, it returns a pause that is longer.
func (r *Registry) interval(src *source, took time.Duration) (wait time.Duration, pause bool) {
	wait, factor := r.config.Slow, time.Duration(pauseAfterSlow)
	switch failures := src.failures.Load(); {
	case failures >= src.staleAfter:
		factor = pauseAfterStale
	case failures == 0 && src.hotUntil.Load() > int64(time.Since(processStart)):
		wait = r.config.Fast
	}
	if p := factor * (took - r.config.Fast); p > wait {
		wait, pause = p, true
	}
	return time.Duration(float64(wait) * (0.9 + 0.2*r.config.Jitter())), pause
}

// errPanic is the error of a scrape that panicked.
var errPanic = errors.New("metrics page: reading it panicked")

// scrape reads a page once. A panic on the way is a failed scrape.
func (r *Registry) scrape(ctx context.Context, src *source, page *bufio.Reader) (err error) {
	defer func() {
		if v := recover(); v != nil {
			r.config.OnPanic(src.url, v, debug.Stack())
			err = errPanic
		}
	}()
	if r.config.Never != nil {
		if kind := r.config.Never(src.key.addr.Addr()); kind != "" {
			return fmt.Errorf("metrics page %s: %s is never read", src.url, kind)
		}
	}
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
	limit := min(cmp.Or(src.key.metrics.MaxPage, DefaultMaxPage), LargestMaxPage)
	page.Reset(&limitedReader{response.Body, limit})
	if next.reading, err = parsePage(page, src.key.metrics); errors.Is(err, errLargePage) {
		return fmt.Errorf("metrics page %s: %w of %d bytes: set picker.metrics.maxPageBytes in a PoolPolicy, %d at most", src.url, err, limit, LargestMaxPage)
	} else if err != nil {
		return fmt.Errorf("metrics page %s: %w", src.url, err)
	}
	next.at = time.Now()
	src.sample.Store(next)
	return nil
}

// limitedReader fails when more than left bytes are read. The end of io.LimitedReader would look like the end of the page.
type limitedReader struct {
	r    io.Reader
	left int64
}

// Read implements io.Reader.
func (l *limitedReader) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return n, errLargePage
	}
	return n, err
}
