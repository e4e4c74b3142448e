package endpoint

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/penstock-project/penstock/picker/upstream"
)

// Spec identifies a model server.
type Spec struct {
	Addr     netip.AddrPort
	Pod      string            // for display
	Labels   map[string]string // immutable once passed to a Registry
	Draining bool
}

// Metrics describes how to read a model server's metrics page.
type Metrics struct {
	// Engine is the engine of servers without an engine label; "" means VLLM. Path, Port, Queue,
	// Running and KVCache override the engine's defaults.
	Engine  Engine
	Path    string
	Port    uint16 // port of the page; 0 means the engine's port or, without one, the endpoint's
	Queue   string // series of waiting requests: NAME or NAME{LABEL=VALUE}
	Running string
	KVCache string // usage, 0 to 1
	MaxPage int64  // in bytes; 0 means DefaultMaxPage
	Off     bool   // no page is read, because the pool's strategy needs none
	// Protocol is the protocol of requests to the server and of its page. A page at another port
	// uses HTTP/1.1.
	Protocol upstream.Protocol
}

// Endpoint is a model server in a Snapshot. Its fields never change.
type Endpoint struct {
	Spec
	Text        string // Addr as text, by which Envoy finds the host
	load        *Load
	source      *source
	earlyEvents bool
}

// maxProblem bounds the text of a problem, in bytes. The text may come from a server.
const maxProblem = 256

func bounded(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) <= maxProblem {
		return text
	}
	const end = "..."
	return strings.ToValidUTF8(text[:maxProblem-len(end)], "") + end
}

// HasPage reports whether this process reads e's metrics page.
func (e *Endpoint) HasPage() bool { return e.source != nil }

// Problem returns why the last scrape failed, or which series it ignored or did not find, or "".
func (e *Endpoint) Problem() string {
	if e.source == nil {
		return ""
	}
	if text := e.source.problem.Load(); text != nil {
		return *text
	}
	return ""
}

// Staleness returns why e's load is not fresh (State.Fresh), or "" if a scrape failed.
func (e *Endpoint) Staleness(at Moment) string {
	switch src := e.source; {
	case src == nil:
		return "its metrics page is not read: the pool's strategy needs none"
	case src.sample.Load() == nil:
		return "its metrics page has not been read yet"
	default:
		if age := time.Duration(int64(at) - src.sample.Load().at); age >= time.Duration(src.freshFor.Load()) {
			return fmt.Sprintf("its metrics page was last read %s ago", age.Round(100*time.Millisecond))
		}
		return ""
	}
}

// PageRead reports whether e's metrics page was ever read.
func (e *Endpoint) PageRead() bool { return e.source != nil && e.source.sample.Load() != nil }

// Shown returns the time of e's last successful scrape or response, or zero.
func (e *Endpoint) Shown() time.Time {
	shown := e.load.Succeeded()
	if src := e.source; src != nil && src.failures.Load() == 0 {
		if s := src.sample.Load(); s != nil {
			if read := processStart.Add(time.Duration(s.at)); read.After(shown) {
				shown = read
			}
		}
	}
	return shown
}

// State is an endpoint's load at one moment.
type State struct {
	// Fresh is false before the first scrape, after several failed scrapes in a row, or if the last
	// scrape is too old. Strategies use Queue, Running and KV only if Fresh is true.
	Fresh bool `json:"fresh"`
	// Idle means that scrapes stopped, because the endpoint's pools had no pick for IdleAfter.
	Idle bool `json:"idle,omitempty"`
	// Proven means that a request or probe succeeded since the last failed request, and since the
	// page became stale.
	Proven bool `json:"proven,omitempty"`
	// Failing means that the endpoint is suspect because requests often fail. Trial means that a
	// suspect endpoint may get one request as a test.
	Failing bool `json:"failing,omitempty"`
	Trial   bool `json:"-"`
	// Silent is set if the endpoint is suspect because it sends no tokens, else nil. Given counts
	// this process's requests to it since then.
	Silent *Silence `json:"silent,omitempty"`
	Given  int64    `json:"-"`

	Queue   float64 `json:"queue"` // waiting requests at the last scrape, like Running and KV
	Running float64 `json:"running"`
	KV      float64 `json:"kvCache"` // usage, 0 to 1
	// Adapters is nil if the page has no LoRA series.
	Adapters *Adapters `json:"adapters,omitempty"`
	// OthersQueue and OthersRunning are the estimated parts of Queue and Running that other clients
	// sent directly.
	OthersQueue   float64 `json:"othersQueue,omitempty"`
	OthersRunning float64 `json:"othersRunning,omitempty"`
	// InFlight counts requests in flight, including peers' requests.
	InFlight int64 `json:"inFlight"`
	// Unseen counts this process's requests in flight that were picked after the last scrape began.
	Unseen int64 `json:"unseen"`
	// UnseenElsewhere is the growth of peers' requests in flight since the last scrape began.
	UnseenElsewhere int64 `json:"-"`

	// Unread and Confirmed are sums over all processes, as in Share.
	Unread    int64 `json:"unread,omitempty"`
	Confirmed int64 `json:"-"`
	// Reading is the estimated time until the server has read all prompts, in seconds. While
	// requests overlap, the errors of the estimates add up; Backlog bounds them.
	Reading float64 `json:"-"`
	// Rate is the prefill rate in tokens a second, from the source RateFrom. Inferred is the rate
	// that first tokens show. 0 means unknown.
	Rate     float64    `json:"rate,omitempty"`
	RateFrom RateSource `json:"rateFrom,omitempty"`
	Inferred float64    `json:"inferredRate,omitempty"`
	// Early means that the server sends first bytes before it reads prompts.
	Early bool `json:"early,omitempty"`
	// Hint is a prefill rate from too few samples for Rate; 0 without a sample. HintWeight is the
	// number of samples, divided by the number that Rate requires.
	Hint       float64 `json:"-"`
	HintWeight float64 `json:"-"`
	// Latency predicts the server's latency; nil before the first sample.
	Latency *Latency `json:"-"`
	// Prompt is the mean number of uncached prompt tokens of recent requests; 0 before the first.
	Prompt float64 `json:"-"`
	// Evicts is prefix.Server.Evicts; 0 if unknown.
	Evicts float64 `json:"-"`
}

// Backlog returns the estimated time until the server has read all prompts, in seconds, for a rate
// in tokens a second. It is Reading, but at most the time for all unread prompts, and at least half
// the time for the confirmed ones.
func (s *State) Backlog(rate float64) float64 {
	if s.Unread <= 0 || rate <= 0 {
		return 0
	}
	return min(max(s.Reading, float64(s.Confirmed)/2/rate), float64(s.Unread)/rate)
}

// Moment is nanoseconds since the process started, by the monotonic clock.
type Moment int64

// At converts a time to a Moment.
func At(now time.Time) Moment { return Moment(now.Sub(processStart)) }

// State returns e's load now.
func (e *Endpoint) State() State {
	var s State
	e.ReadState(&s, At(time.Now()))
	return s
}

// ReadState sets s to e's load at a moment.
func (e *Endpoint) ReadState(s *State, at Moment) {
	load := e.load
	own := load.inFlight.Load()
	elsewhere := load.elsewhere.Load()
	s.InFlight, s.Unseen, s.UnseenElsewhere = own+elsewhere, own, elsewhere
	s.Failing, s.Trial = load.health.failing(int64(at))
	s.Proven = load.health.proven.Load()
	if s.Silent = load.motion.silence.Load(); s.Silent != nil {
		s.Given = load.motion.given.Load()
		s.Trial = !load.health.trial.Load() && load.motion.trialDue(int64(at))
	}
	load.prefill.read(s, int64(at))
	s.Inferred, s.RateFrom = 0, ""
	if rate := load.reported.read(int64(at)); rate > 0 {
		s.Rate, s.RateFrom, s.Inferred = rate, Reported, s.Rate
	} else if s.Rate > 0 {
		s.RateFrom = Inferred
	}
	s.Latency = load.predictor()
	if s.Evicts = 0; load.prefixes != nil {
		s.Evicts = load.prefixes.Evicts()
	}
	src := e.source
	var sample *sample
	if src != nil {
		sample = src.sample.Load()
	}
	if s.Fresh, s.Idle = false, false; src != nil {
		s.Idle = src.failures.Load() == 0 && src.scraper.Load() == nil
	}
	if sample == nil {
		s.Queue, s.Running, s.KV, s.OthersQueue, s.OthersRunning, s.Adapters = 0, 0, 0, 0, 0, nil
		return
	}
	s.Queue, s.Running, s.KV, s.Adapters = sample.Queue, sample.Running, sample.KV, sample.Adapters
	s.OthersQueue, s.OthersRunning = sample.othersQueue, sample.othersRunning
	s.Fresh = src.failures.Load() < src.staleAfter && int64(at)-sample.at < src.freshFor.Load()
	s.Unseen = max(0, min(own, int64(load.sent.Load()-sample.sentBefore)))
	s.UnseenElsewhere = max(0, elsewhere-sample.elsewhere)
}

// Snapshot is one pool's endpoints at one time, sorted by address.
type Snapshot struct {
	Endpoints []Endpoint
	// FirstUse is called by the first MarkUsed; may be nil. It is set before any pick uses the
	// Snapshot.
	FirstUse func()

	registry *Registry
	slots    *Slots
	used     atomic.Int64 // last effective MarkUsed, in nanoseconds since processStart; 0 if never
}

// Used returns the time of the pool's last pick, at most markEvery too early, or zero.
func (s *Snapshot) Used() time.Time {
	if at := s.used.Load(); at != 0 {
		return processStart.Add(time.Duration(at))
	}
	return time.Time{}
}

// Find returns the Load of an address, or nil.
func (s *Snapshot) Find(addr netip.AddrPort) *Load {
	i, ok := slices.BinarySearchFunc(s.Endpoints, addr,
		func(e Endpoint, a netip.AddrPort) int { return e.Addr.Compare(a) })
	if !ok {
		return nil
	}
	return s.Endpoints[i].load
}
