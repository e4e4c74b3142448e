package endpoint

import (
	"net/netip"
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

// Load counts the requests of this process to one address.
type Load struct {
	inFlight atomic.Int64
	sent     atomic.Uint64 // all picks so far: the difference to a sample's is what the scrape can't have seen
	served   atomic.Uint64
	failed   atomic.Uint64
	waited   atomic.Int64 // nanoseconds to the first byte, of all served requests together

	refs int // of Snapshots; guarded by Registry.mu
}

// Load returns the counters of e's address.
func (e *Endpoint) Load() *Load { return e.load }

// Record counts one request that ended: served, with the time to its first byte (0: unknown), or failed.
func (l *Load) Record(ok bool, firstByte time.Duration) {
	if !ok {
		l.failed.Add(1)
		return
	}
	l.served.Add(1)
	l.waited.Add(int64(firstByte))
}

// Totals returns the requests served and failed since the endpoint was added, and the time to the first byte of all served
// requests together.
func (l *Load) Totals() (served, failed uint64, firstByte time.Duration) {
	return l.served.Load(), l.failed.Load(), time.Duration(l.waited.Load())
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
	// InFlight counts this process's requests in flight. Unseen counts those of them that were sent after the last scrape
	// began, so that neither Queue nor Running includes them.
	InFlight int64 `json:"inFlight"`
	Unseen   int64 `json:"unseen"`
}

// State returns e's load now.
func (e *Endpoint) State() State { return e.StateAt(time.Now()) }

// StateAt is State for callers that read many endpoints and read the clock once.
func (e *Endpoint) StateAt(now time.Time) State {
	s := State{InFlight: e.load.inFlight.Load()}
	if e.source == nil {
		s.Unseen = s.InFlight
		return s
	}
	failures := e.source.failures.Load()
	s.Idle = failures == 0 && e.source.idle.Load()
	sample := e.source.sample.Load()
	if sample == nil {
		s.Unseen = s.InFlight
		return s
	}
	s.Queue, s.Running, s.KV = sample.queue, sample.running, sample.kv
	s.Fresh = failures < e.source.staleAfter && now.Sub(sample.at) < e.source.maxAge
	s.Unseen = max(0, min(s.InFlight, int64(e.load.sent.Load()-sample.sentBefore)))
	return s
}

// Snapshot is one pool's endpoints at one time, sorted by address.
type Snapshot struct {
	Endpoints []Endpoint
	registry  *Registry
	used      atomic.Int64 // when MarkUsed last notified the scrapers, in nanoseconds since processStart
}
