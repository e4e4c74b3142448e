package endpoint

import (
	"bufio"
	"cmp"
	"context"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"github.com/penstock-project/penstock/picker/prefix"
)

// Config configures a Registry.
type Config struct {
	// Transport replaces the connections for metrics pages without TLS, in tests.
	Transport http.RoundTripper
	Fast      time.Duration // shortest time between scrapes of a page; default 50 ms
	// Slow is the longest time between scrapes without picks; default 1 s.
	Slow      time.Duration
	PerSecond int           // scrapes a second by all processes (see Share); default 1,000
	IdleAfter time.Duration // time from the last pick to the end of scrapes; default 1 minute
	Timeout   time.Duration // of a scrape; default 1 s
	// StaleAfter failed scrapes in a row make an endpoint's load stale; default 3.
	StaleAfter int
	// Concurrent bounds the concurrent scrapes, with a buffer of 8 KiB each; default 256.
	Concurrent int
	// Never returns why an address must not be scraped, or ""; may be nil.
	Never func(netip.Addr) string
	// Prefixes tracks the servers' cached prefixes; may be nil.
	Prefixes *prefix.Index
	Jitter   func() float64
	// Read receives each reading of a page, to send it to peers (Receive). It must not block; may
	// be nil.
	Read func(addr netip.AddrPort, page uint64, r Reading)
	// OnPanic is called if a scrape of page panics; may be nil.
	OnPanic func(page string, value any, stack []byte)
}

// Registry has the Loads and scrapers of all pools of this process.
type Registry struct {
	config Config

	mu      sync.Mutex
	loads   map[netip.AddrPort]*Load
	peers   map[netip.AddrPort]Elsewhere
	headers map[netip.AddrPort]*HeaderLimits
	sources map[sourceKey]*source
	resumed []*source // sources with picks again; Run starts their scrapers
	changed chan struct{}

	buffers  chan *bufio.Reader
	failures atomic.Uint64
	budget   budget
	running  atomic.Int64
	freshFor atomic.Int64 // maximum age of a fresh sample, in nanoseconds

	publishing  sync.Mutex // guards unpublished; taken after mu
	unpublished []*Load
	counted     chan struct{}

	watching sync.Mutex // guards watched
	watched  []*Load    // servers with waiting requests, and silent servers
	waits    chan struct{}
}

// pageBuffer bounds a line in a metrics page, in bytes.
const pageBuffer = 8 << 10

// NewRegistry returns an empty Registry.
func NewRegistry(c Config) *Registry {
	c.Fast = cmp.Or(c.Fast, 50*time.Millisecond)
	c.Slow = cmp.Or(c.Slow, time.Second)
	c.IdleAfter = cmp.Or(c.IdleAfter, time.Minute)
	c.PerSecond = cmp.Or(c.PerSecond, 1000)
	c.Timeout = cmp.Or(c.Timeout, time.Second)
	c.StaleAfter = cmp.Or(c.StaleAfter, 3)
	c.Concurrent = cmp.Or(c.Concurrent, 256)
	if c.Read == nil {
		c.Read = func(netip.AddrPort, uint64, Reading) {}
	}
	if c.OnPanic == nil {
		c.OnPanic = func(string, any, []byte) {}
	}
	r := &Registry{
		config:  c,
		loads:   map[netip.AddrPort]*Load{},
		peers:   map[netip.AddrPort]Elsewhere{},
		headers: map[netip.AddrPort]*HeaderLimits{},
		sources: map[sourceKey]*source{},
		changed: make(chan struct{}, 1),
		buffers: make(chan *bufio.Reader, c.Concurrent),
		counted: make(chan struct{}, 1),
		waits:   make(chan struct{}, 1),
	}
	r.budget = newBudget(c.PerSecond)
	r.countScrapers(0)
	for range c.Concurrent {
		r.buffers <- nil
	}
	return r
}

// ScrapeFailures counts the failed scrapes since the start.
func (r *Registry) ScrapeFailures() uint64 { return r.failures.Load() }

// Snapshot returns a pool's list of endpoints. It holds references to shared Loads and scrapers
// until Release. Of several specs with one address, the first counts. slots may be nil.
func (r *Registry) Snapshot(m Metrics, slots *Slots, specs []Spec) *Snapshot {
	specs = slices.Clone(specs)
	slices.SortStableFunc(specs, func(a, b Spec) int { return a.Addr.Compare(b.Addr) })
	specs = slices.CompactFunc(specs, func(a, b Spec) bool { return a.Addr == b.Addr })
	s := &Snapshot{Endpoints: make([]Endpoint, len(specs)), registry: r, slots: slots}
	dialects := map[Metrics]*dialect{}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, spec := range specs {
		load := r.loads[spec.Addr]
		if load == nil {
			load = &Load{addr: spec.Addr, registry: r}
			load.setElsewhere(r.peers[spec.Addr], sinceStart(time.Now()))
			load.headersElsewhere.Store(r.headers[spec.Addr])
			if r.config.Prefixes != nil {
				load.prefixes = r.config.Prefixes.Server(spec.Addr)
			}
			r.loads[spec.Addr] = load
		}
		load.refs++
		if slots != nil {
			load.limit(slots)
		}
		s.Endpoints[i] = Endpoint{Spec: spec, Text: spec.Addr.String(), load: load}
		engine := m.forServer(spec.Labels).Engine
		s.Endpoints[i].earlyEvents = engine == "" || engine == VLLM
		if !m.Off {
			s.Endpoints[i].source = r.source(spec.Addr, m.forServer(spec.Labels), load, dialects)
		}
	}
	return s
}

// source returns the source of a page, perhaps a new, idle one. The caller holds r.mu.
func (r *Registry) source(addr netip.AddrPort, m Metrics, load *Load, dialects map[Metrics]*dialect) *source {
	by := m.Protocol
	m.Protocol.TLS = nil // Protocol.Key stands for TLS, so that equal pages share a scraper
	key := sourceKey{addr, unique.Make(m)}
	src := r.sources[key]
	if src == nil {
		names := dialects[m]
		if names == nil {
			names = m.dialect()
			dialects[m] = names
		}
		port := cmp.Or(names.port, addr.Port())
		by.HTTP2 = by.HTTP2 && port == addr.Port()
		src = &source{
			key: key, load: load, number: m.number(),
			url:        by.URL(netip.AddrPortFrom(addr.Addr(), port)) + names.path,
			names:      names,
			staleAfter: int64(r.config.StaleAfter),
			freshFor:   &r.freshFor,
		}
		if src.transport = r.config.Transport; by.TLS != nil || by.HTTP2 {
			src.transport = by.Transport(1)
		}
		r.sources[key] = src
		load.setSources(func(list []*source) []*source { return append(list, src) })
	}
	src.refs++
	return src
}

// Release drops the references of s. Picks may still use s.
func (r *Registry) Release(s *Snapshot) {
	if s == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if s.slots != nil {
			e.load.unlimit(s.slots)
		}
		if e.load.refs--; e.load.refs == 0 {
			delete(r.loads, e.Addr)
			e.load.leave()
			if r.config.Prefixes != nil {
				r.config.Prefixes.Release(e.load.prefixes)
			}
		}
		if e.source == nil {
			continue
		}
		if e.source.refs--; e.source.refs == 0 {
			delete(r.sources, e.source.key)
			e.load.setSources(func(list []*source) []*source {
				return slices.DeleteFunc(list, func(other *source) bool { return other == e.source })
			})
			if s := e.source.scraper.Load(); s != nil {
				close(s.gone)
			}
		}
	}
}

func (l *Load) leave() {
	l.gone.Store(true)
	if l.headerLimits() != nil {
		l.newHeaders.Store(true)
		l.markDirty()
	}
}

// Find returns the Load of an address; nil if no pool has the address.
func (r *Registry) Find(addr netip.AddrPort) *Load {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loads[addr]
}

func (r *Registry) resume(list []*source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, src := range list {
		if src.refs > 0 { // 0 after the Snapshot's release
			r.scraperOf(src)
		}
	}
}

// scraperOf returns the scraper of a page, or makes one for an idle page. The caller holds r.mu.
func (r *Registry) scraperOf(src *source) *scraper {
	s := src.scraper.Load()
	if s == nil {
		s = &scraper{now: make(chan struct{}, 1), gone: make(chan struct{}), scraped: make(chan struct{})}
		src.scraper.Store(s)
		r.resumed = append(r.resumed, src)
		notify(r.changed)
	}
	return s
}

// finishScrape reports whether the page has become idle, so that its scraper must end. It misses no
// pick, because MarkUsed sets usedAt before it takes the lock.
func (r *Registry) finishScrape(src *source) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	scraped := src.scraper.Load().scraped
	select {
	case <-scraped:
	default:
		close(scraped)
	}
	if time.Since(processStart) <= time.Duration(src.usedAt.Load())+r.config.IdleAfter {
		return false
	}
	src.scraper.Store(nil)
	return true
}

func (r *Registry) pending(s *Snapshot) (all []<-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range s.Endpoints {
		if src := s.Endpoints[i].source; src != nil && src.refs > 0 {
			all = append(all, r.scraperOf(src).scraped)
		}
	}
	return all
}

// Run scrapes the pages of pools with picks until ctx ends.
func (r *Registry) Run(ctx context.Context) error {
	var scrapers sync.WaitGroup
	defer scrapers.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.changed:
		}
		r.mu.Lock()
		resumed := r.resumed
		r.resumed = nil
		r.mu.Unlock()
		for _, src := range resumed {
			scrapers.Go(func() { r.scrapeUntilIdle(ctx, src) })
		}
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
