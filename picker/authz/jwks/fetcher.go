package jwks

import (
	"bytes"
	"context"
	"net/netip"
	"sync"
	"time"
)

const (
	// refreshInterval is the time between successful fetches of a source. A key that the issuer
	// removes stays valid here for up to this time.
	refreshInterval = 5 * time.Minute
	// minInterval is the least time between the starts of two fetches of a source.
	minInterval = 10 * time.Second
)

// Config configures a Fetcher.
type Config struct {
	// Hosts are the hosts that a fetch may reach: HOST (port 443) or HOST:PORT. AnyHost permits
	// every host.
	Hosts   []string
	AnyHost bool
	// Never returns why no fetch may connect to an address, or "".
	Never func(netip.Addr) string
	// Forms returns an address and every address to which a network may translate it, as NAT64
	// does. All are checked. A nil Forms means only the address itself.
	Forms func(netip.Addr) []netip.Addr
	// APIServers are the API server's addresses, HOST:PORT. A fetch may reach these only for the
	// keys of tokens that the API server issues.
	APIServers []string
	// APIEndpoints returns further addresses of the API server; may be nil. While it fails, every
	// address counts as the API server's.
	APIEndpoints func(context.Context) ([]netip.AddrPort, error)
	// Lookup resolves a host's name, as *net.Resolver's LookupNetIP.
	Lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
	Now    func() time.Time
	// Changed is called after a source's set or Problem has changed; may be nil.
	Changed func()
}

// Fetcher fetches the key sets of sources, and keeps the last good set of each. Its methods are
// safe for concurrent use.
type Fetcher struct {
	cfg  Config
	load func(context.Context, Source) ([]byte, error) // fetch, except in tests
	// timeout is fetchTimeout, except in tests.
	timeout time.Duration
	wake    chan struct{} // has room for one value

	mu      sync.Mutex
	sources map[Source]*state
}

type state struct {
	text    []byte
	set     *Set     // nil before the first
	problem *Problem // why the last fetch failed, or the inline set is invalid, or nil
	begun   time.Time
	next    time.Time // time of the next fetch; zero if inline, or during a fetch
	// running is closed at the end of the fetch in flight; nil without one.
	running  chan struct{}
	failures int
}

// New makes a Fetcher, which fetches nothing before Run.
func New(cfg Config) *Fetcher {
	f := &Fetcher{cfg: cfg, timeout: fetchTimeout, wake: make(chan struct{}, 1), sources: map[Source]*state{}}
	f.load = f.fetch
	return f
}

// Follow replaces the followed sources, and drops the sets of others.
func (f *Fetcher) Follow(sources []Source) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make(map[Source]*state, len(sources))
	for _, s := range sources {
		switch known := f.sources[s]; {
		case known != nil:
			all[s] = known
		case s.Inline != "":
			all[s] = &state{}
			all[s].take([]byte(s.Inline), nil)
		default:
			all[s] = &state{next: f.cfg.Now()}
			for former, at := range f.sources {
				if former.Token = s.Token; former == s { // the set stays: a new token does not change the issuer
					all[s].text, all[s].set = at.text, at.set
				}
			}
		}
	}
	f.sources = all
	f.awake()
}

func (f *Fetcher) awake() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Get returns the current set of a source, or nil.
func (f *Fetcher) Get(s Source) *Set {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at := f.sources[s]; at != nil {
		return at.set
	}
	return nil
}

// Problem returns why the last fetch of a source failed; nil if it succeeded, or none has ended.
// kept reports whether an earlier set is still in use.
func (f *Fetcher) Problem(s Source) (p *Problem, kept bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at := f.sources[s]; at != nil {
		return at.problem, at.set != nil
	}
	return nil, false
}

// Pending reports whether the first fetch of a source has not ended.
func (f *Fetcher) Pending(s Source) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.sources[s]
	return at != nil && at.set == nil && at.problem == nil
}

// Refresh waits for a fetch of a source until ctx ends, and reports whether the fetch has ended. If
// no fetch is in flight, Refresh begins one, but only minInterval after the last began.
func (f *Fetcher) Refresh(ctx context.Context, s Source) bool {
	f.mu.Lock()
	at := f.sources[s]
	if at == nil || s.Inline != "" {
		f.mu.Unlock()
		return false
	}
	now := f.cfg.Now()
	if at.running == nil {
		if since := now.Sub(at.begun); !at.begun.IsZero() && since >= 0 && since < minInterval {
			f.mu.Unlock()
			return false
		}
		at.begin(now)
		at.next = now // Run fetches it
	}
	running := at.running
	f.mu.Unlock()
	f.awake()
	select {
	case <-running:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *state) begin(now time.Time) { s.begun, s.running = now, make(chan struct{}) }

// Run fetches sets until ctx ends.
func (f *Fetcher) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	for {
		due, next := f.due()
		for _, s := range due {
			group.Go(func() {
				text, err := f.load(ctx, s)
				if ctx.Err() == nil {
					f.done(s, text, err)
				}
			})
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-f.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (f *Fetcher) due() (due []Source, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.cfg.Now()
	wait = refreshInterval
	for s, at := range f.sources {
		switch {
		case at.next.IsZero(): // inline, or a fetch is in flight
		case at.next.After(now):
			wait = min(wait, at.next.Sub(now))
		default:
			if at.running == nil {
				at.begin(now)
			}
			at.next = time.Time{}
			due = append(due, s)
		}
	}
	return due, wait
}

func (f *Fetcher) done(s Source, text []byte, err error) {
	f.mu.Lock()
	at := f.sources[s]
	if at == nil || at.running == nil { // Follow has dropped the source
		f.mu.Unlock()
		return
	}
	before, problem := at.set, at.problem
	at.take(text, err)
	wait := refreshInterval
	if at.problem == nil {
		at.failures = 0
	} else {
		at.failures++
		wait = min(refreshInterval, minInterval<<min(at.failures-1, 5))
	}
	at.next = f.cfg.Now().Add(wait)
	close(at.running)
	at.running = nil
	changed := at.set != before || (at.problem == nil) != (problem == nil) ||
		problem != nil && at.problem != nil && *problem != *at.problem
	f.mu.Unlock()
	f.awake()
	if changed && f.cfg.Changed != nil {
		f.cfg.Changed()
	}
}

// take replaces the set, except after a failed fetch. If the text is unchanged, take keeps the old
// *Set, so that package jwt keeps the tokens verified with this set.
func (s *state) take(text []byte, err error) {
	if err == nil && s.set != nil && bytes.Equal(text, s.text) {
		s.problem = nil
		return
	}
	var set *Set
	if err == nil {
		set, err = Parse(text)
	}
	if err != nil {
		s.problem = problemOf(err)
		return
	}
	s.text, s.set, s.problem = text, set, nil
}
