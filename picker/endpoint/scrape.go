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
	"unique"
)

// Limits of a metrics page, in bytes.
const (
	DefaultMaxPage = 1 << 20
	LargestMaxPage = 8 << 20
)

const maxHeader = 64 << 10

const markEvery = 100 * time.Millisecond

// A scrape that takes longer than the fast interval is followed by a pause of a multiple of its
// time: pauseAfterStale if the load is stale, else pauseAfterSlow.
const (
	pauseAfterSlow  = 2
	pauseAfterStale = 15
)

var errLargePage = errors.New("the page is larger than its limit")

type sourceKey struct {
	addr    netip.AddrPort
	metrics unique.Handle[Metrics] // a handle: the servers of a pool share one copy of the long text
}

type source struct {
	// Every pick reads these fields, in one cache line.
	sample     atomic.Pointer[sample]
	failures   atomic.Int64 // in a row
	staleAfter int64
	freshFor   *atomic.Int64
	due        atomic.Uint64 // value of Load.sent from which the next scrape is due
	// scraper is nil while the page is idle; Registry.mu guards changes.
	scraper atomic.Pointer[scraper]

	key       sourceKey
	number    uint64
	received  atomic.Int64 // last reading from a peer or the server; 0 means never
	url       string
	transport http.RoundTripper // nil means a pageConn
	names     *dialect
	load      *Load
	problem   atomic.Pointer[string] // nil after a scrape that found everything
	// usedAt is the last pick from a pool with this page, since processStart, at most markEvery too
	// early.
	usedAt atomic.Int64

	refs int // guarded by Registry.mu
}

// scraper reads a page. An idle page has no scraper, like most pages of a large fleet.
type scraper struct {
	now     chan struct{}
	gone    chan struct{} // closed when no Snapshot has the page
	scraped chan struct{} // closed by the first scrape
}

func (src *source) scrapeSoon() {
	if s := src.scraper.Load(); s != nil {
		notify(s.now)
	}
}

type sample struct {
	Reading
	at int64
	// sentBefore counts the picks before the scrape, and elsewhere the peers' requests in flight
	// then.
	sentBefore                 uint64
	elsewhere                  int64
	othersQueue, othersRunning float64
}

// Scrape is a scrape in flight of an endpoint's page.
type Scrape struct {
	src       *source
	sent      uint64 // picks before the scrape
	ours      int64  // all processes' requests in flight when the scrape began
	elsewhere int64
}

// BeginScrape begins a scrape of e's page, which the caller reads. If e has no page, the methods of
// the result do nothing.
func (e *Endpoint) BeginScrape() Scrape {
	if e.source == nil {
		return Scrape{}
	}
	return e.source.begin()
}

func (src *source) begin() Scrape {
	elsewhere := src.load.elsewhere.Load()
	return Scrape{src: src, sent: src.load.sent.Load(), ours: src.load.InFlight() + elsewhere, elsewhere: elsewhere}
}

// Succeed stores the reading of the page. Our requests in flight when the scrape began, and
// requests sent during the scrape, may be in the reading. Succeed attributes all further requests
// to other clients.
func (s Scrape) Succeed(r Reading, now time.Time) {
	if s.src == nil {
		return
	}
	next := &sample{Reading: r, at: sinceStart(now), sentBefore: s.sent, elsewhere: s.elsewhere}
	if all := r.Queue + r.Running; all > 0 {
		others := max(0, all-float64(s.ours)-float64(s.src.load.sent.Load()-s.sent))
		next.othersQueue, next.othersRunning = r.Queue*others/all, r.Running*others/all
	}
	if old := s.src.sample.Load(); s.src.load.prefixes != nil && r.CacheTokens > 0 &&
		(old == nil || old.CacheTokens != r.CacheTokens) {
		s.src.load.prefixes.SetCapacity(r.CacheTokens)
	}
	quiet := r.Queue+r.Running+float64(s.ours+s.src.load.Total()) == 0
	crowd := r.Queue+next.othersRunning > 0
	s.src.load.reported.take(s.src, &r, quiet, crowd, next.at, &s.src.load.prefill)
	old := s.src.sample.Swap(next)
	s.src.failures.Store(0)
	s.src.load.motion.read(s.src.load, old, next)
	if r.Problem == "" {
		s.src.problem.Store(nil)
		return
	}
	text := bounded("metrics page " + s.src.url + ": " + r.Problem)
	s.src.problem.Store(&text)
}

// Fail ends the scrape and records why the page could not be read.
func (s Scrape) Fail(err error) {
	if s.src == nil {
		return
	}
	text := bounded(err.Error())
	s.src.problem.Store(&text)
	if s.src.failures.Add(1) == s.src.staleAfter {
		s.src.load.health.proven.Store(false)
	}
}

var processStart = time.Now()

func sinceStart(now time.Time) int64 { return int64(At(now)) }

// MarkUsed records a pick from the pool, and starts the scrapers of idle pages. It has an effect at
// most ten times a second.
func (s *Snapshot) MarkUsed() {
	now := int64(time.Since(processStart))
	last := s.used.Load()
	if last != 0 && now-last < int64(markEvery) || !s.used.CompareAndSwap(last, now) {
		return
	}
	if last == 0 && s.FirstUse != nil {
		s.FirstUse()
	}
	var cold []*source
	for i := range s.Endpoints {
		if src := s.Endpoints[i].source; src != nil && src.usedAt.Swap(now) < now && src.scraper.Load() == nil {
			cold = append(cold, src)
		}
	}
	if len(cold) > 0 {
		s.registry.resume(cold)
	}
}

// ReadSoon triggers scrapes of all pages of a pool whose requests wait. Otherwise only picks
// trigger scrapes.
func (s *Snapshot) ReadSoon() {
	s.MarkUsed()
	for i := range s.Endpoints {
		if src := s.Endpoints[i].source; src != nil {
			src.scrapeSoon()
		}
	}
}

// Refresh triggers scrapes of a pool's idle pages, and waits for them at most timeout.
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

func (r *Registry) scrapeUntilIdle(ctx context.Context, src *source) {
	r.countScrapers(1)
	defer r.countScrapers(-1)
	signals := src.scraper.Load()
	conn := newPageConn(src.url)
	defer conn.Close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	wait := func(d time.Duration, early <-chan struct{}) bool {
		if d <= 0 && early == nil {
			return true
		}
		timer.Reset(d)
		select {
		case <-ctx.Done():
			return false
		case <-signals.gone:
			return false
		case <-early:
		case <-timer.C:
		}
		return true
	}
	for {
		received := src.received.Load()
		if !wait(r.budget.take(time.Now()), nil) {
			return
		}
		var took time.Duration
		if src.received.Load() == received {
			var ok bool
			if took, ok = r.scrapeOnce(ctx, src, signals, conn); !ok {
				return
			}
		}
		least, most := r.interval(src, took)
		for { // each reading from a peer postpones the next scrape
			if r.finishScrape(src) {
				return
			}
			received = src.received.Load()
			from := time.Now()
			if !wait(r.aligned(from, most), signals.now) || !wait(least-time.Since(from), nil) {
				return
			}
			last := src.received.Load()
			if last == received {
				break
			}
			least, most = r.interval(src, 0)
			if least, most = follow(least, most, time.Duration(sinceStart(time.Now())-last)); most == 0 {
				break
			}
		}
	}
}

func (r *Registry) scrapeOnce(ctx context.Context, src *source, signals *scraper, conn *pageConn) (took time.Duration,
	ok bool) {
	var page *bufio.Reader
	select {
	case <-ctx.Done():
		return 0, false
	case <-signals.gone:
		return 0, false
	case page = <-r.buffers:
	}
	if page == nil {
		page = bufio.NewReaderSize(nil, pageBuffer)
	}
	select { // this scrape covers all earlier signals
	case <-signals.now:
	default:
	}
	began, mark := time.Now(), src.begin()
	src.due.Store(mark.sent + picksPerScrape)
	reading, err := r.scrape(ctx, src, conn, page)
	took = time.Since(began)
	page.Reset(nil)
	r.buffers <- page
	if ctx.Err() != nil {
		return took, false
	}
	if err == nil {
		mark.Succeed(reading, time.Now())
		r.config.Read(src.key.addr, src.number, reading)
	} else {
		mark.Fail(err)
		r.failures.Add(1)
	}
	return took, true
}

func (r *Registry) interval(src *source, took time.Duration) (least, most time.Duration) {
	failures, factor := src.failures.Load(), time.Duration(pauseAfterSlow)
	if failures >= src.staleAfter {
		factor = pauseAfterStale
	}
	least = max(r.config.Fast, factor*(took-r.config.Fast))
	if most = max(r.config.Slow, least); failures > 0 {
		least = most
	}
	return r.jittered(least), r.jittered(most)
}

// aligned returns a longer wait, so that scrapes of many pages begin together. In a pool of 100
// servers with few picks, this process's wake-ups would cost more than the scrapes.
func (r *Registry) aligned(now time.Time, wait time.Duration) time.Duration {
	every := r.config.Fast
	if wait < 4*every {
		return wait
	}
	past := time.Duration(sinceStart(now)) + wait
	return wait + (every-past%every)%every
}

func (r *Registry) jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*r.config.Jitter()))
}

var errPanic = errors.New("metrics page: reading it panicked")

// scrape reads a page once. A panic counts as a failed scrape.
func (r *Registry) scrape(ctx context.Context, src *source, conn *pageConn, page *bufio.Reader) (reading Reading,
	err error) {
	defer func() {
		if v := recover(); v != nil {
			r.config.OnPanic(src.url, v, debug.Stack())
			err = errPanic
		}
	}()
	if r.config.Never != nil {
		if kind := r.config.Never(src.key.addr.Addr()); kind != "" {
			return reading, fmt.Errorf("metrics page %s: %s is never read", src.url, kind)
		}
	}
	if src.transport == nil {
		err = conn.read(ctx, time.Now().Add(r.config.Timeout), func(response *http.Response) (err error) {
			reading, err = src.read(response, page)
			return err
		})
	} else {
		reading, err = r.transported(ctx, src, page)
	}
	if err != nil {
		return reading, fmt.Errorf("metrics page %s: %w", src.url, err)
	}
	return reading, nil
}

func (r *Registry) transported(ctx context.Context, src *source, page *bufio.Reader) (reading Reading, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, src.url, nil)
	if err != nil {
		return reading, err
	}
	response, err := src.transport.RoundTrip(request)
	if err != nil {
		return reading, err
	}
	defer response.Body.Close()
	return src.read(response, page)
}

func (src *source) read(response *http.Response, page *bufio.Reader) (reading Reading, err error) {
	if response.StatusCode != http.StatusOK {
		return reading, fmt.Errorf("status %d", response.StatusCode)
	}
	fault(response.Header)
	limit := min(cmp.Or(src.key.metrics.Value().MaxPage, DefaultMaxPage), LargestMaxPage)
	page.Reset(&limitedReader{response.Body, limit})
	if reading, err = parsePage(page, src.names); errors.Is(err, errLargePage) {
		err = fmt.Errorf("%w of %d bytes: set picker.metrics.maxPageBytes in a PoolPolicy, %d at most", err, limit,
			LargestMaxPage)
	}
	return reading, err
}

// limitedReader fails on a page larger than left, which io.LimitedReader would truncate silently.
type limitedReader struct {
	r    io.Reader
	left int64
}

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
