package endpoint

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// Spec identifies a model server.
type Spec struct {
	Addr     netip.AddrPort
	Pod      string            // name of its pod or ModelServers object, for display; may be empty
	Labels   map[string]string // must not be changed after it was passed to a Registry
	Draining bool              // takes no new request
}

// Metrics describes a model server's metrics page.
type Metrics struct {
	Path    string // of the page; "" means DefaultPath
	Port    uint16 // of the page; 0 means the endpoint's own
	Queue   string // series with the number of waiting requests; "" means vLLM's, as for the next two
	Running string // series with the number of running requests
	KVCache string // series with the KV cache's use, 0 to 1
	MaxPage int64  // size of the page in bytes, above which it is an error; 0 means DefaultMaxPage
	Off     bool   // no page is read: for strategies that need none
}

// Endpoint is one model server in a Snapshot. Its own fields never change.
type Endpoint struct {
	Spec
	Text   string // Addr in the form that Envoy looks up
	load   *Load
	source *source // nil if its metrics are not read
}

// Problem returns why the last scrape failed; "" if it succeeded or there was none.
func (e *Endpoint) Problem() string {
	if e.source == nil {
		return ""
	}
	if text := e.source.problem.Load(); text != nil {
		return *text
	}
	return ""
}

// State is an endpoint's load at one moment.
type State struct {
	// Fresh is false for an endpoint without a usable scrape: never scraped, several scrapes failed in a row, or the last
	// one is too old. Queue, Running and KV are then the last known values, and a strategy must not rely on them.
	Fresh bool `json:"fresh"`
	// Idle means that the endpoint's pools have had no pick for a while, so that its page is not scraped. The last scrape
	// succeeded. The next pick resumes scraping.
	Idle    bool    `json:"idle,omitempty"`
	Queue   float64 `json:"queue"`   // requests waiting, by the last scrape
	Running float64 `json:"running"` // requests running, by the last scrape
	KV      float64 `json:"kvCache"` // KV cache in use, 0 to 1, by the last scrape
	// Adapters are nil if the last scrape shows none.
	Adapters *Adapters `json:"adapters,omitempty"`
	// InFlight counts the requests in flight: this process's, and those of its peers at endpoints of a pool that limits them.
	InFlight int64 `json:"inFlight"`
	// Unseen counts this process's requests in flight that were sent after the last scrape began, so that neither Queue nor
	// Running includes them.
	Unseen int64 `json:"unseen"`
}

// State returns e's load now.
func (e *Endpoint) State() State { return e.StateAt(time.Now()) }

// StateAt is State for callers that read many endpoints and read the clock once.
func (e *Endpoint) StateAt(now time.Time) State {
	own := e.load.inFlight.Load()
	s := State{InFlight: own + e.load.elsewhere.Load()}
	if e.source == nil {
		s.Unseen = own
		return s
	}
	failures := e.source.failures.Load()
	s.Idle = failures == 0 && e.source.idle.Load()
	sample := e.source.sample.Load()
	if sample == nil {
		s.Unseen = own
		return s
	}
	s.Queue, s.Running, s.KV, s.Adapters = sample.queue, sample.running, sample.kv, sample.adapters
	s.Fresh = failures < e.source.staleAfter && now.Sub(sample.at) < e.source.maxAge
	s.Unseen = max(0, min(own, int64(e.load.sent.Load()-sample.sentBefore)))
	return s
}

// Snapshot is one pool's endpoints at one time, sorted by address.
type Snapshot struct {
	Endpoints []Endpoint
	registry  *Registry
	slots     *Slots       // nil if the pool does not limit requests in flight
	used      atomic.Int64 // when MarkUsed last notified the scrapers, in nanoseconds since processStart
}

// Find returns the counters of an address, or nil if the pool does not have it.
func (s *Snapshot) Find(addr netip.AddrPort) *Load {
	i, ok := slices.BinarySearchFunc(s.Endpoints, addr, func(e Endpoint, a netip.AddrPort) int { return e.Addr.Compare(a) })
	if !ok {
		return nil
	}
	return s.Endpoints[i].load
}
