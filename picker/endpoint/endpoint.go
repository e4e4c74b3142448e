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
	Draining bool              // accepts no new requests
}

// Metrics describes a model server's metrics page.
type Metrics struct {
	// Engine is for servers without an engine label; "" is VLLM. Path, Port, Queue, Running and
	// KVCache override the engine's values.
	Engine  Engine
	Path    string
	Port    uint16 // port of the page; if 0, the engine's port; if that is 0 too, the endpoint's
	Queue   string // series, as NAME or NAME{LABEL=VALUE}
	Running string // series of running requests
	KVCache string // usage, 0 to 1
	MaxPage int64  // in bytes; 0 means DefaultMaxPage
	Off     bool   // read no page, for strategies that need none
	// Protocol is for calls and for the page. A page at another port is read over HTTP/1.1.
	Protocol upstream.Protocol
}

// Endpoint is one model server in a Snapshot. Its fields never change.
type Endpoint struct {
	Spec
	Text        string // Addr in the form that Envoy looks up
	load        *Load
	source      *source
	earlyEvents bool
}

// maxProblem bounds the text of a problem, in bytes, because a server can write it.
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

// HasPage reports whether e's metrics page is read.
func (e *Endpoint) HasPage() bool { return e.source != nil }

// Problem returns why the last scrape failed, or what it ignored or missed, or "".
func (e *Endpoint) Problem() string {
	if e.source == nil {
		return ""
	}
	if text := e.source.problem.Load(); text != nil {
		return *text
	}
	return ""
}

// Staleness returns why e's load is not fresh although no scrape failed, or "".
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

// PageRead reports whether the metrics page was ever read.
func (e *Endpoint) PageRead() bool { return e.source != nil && e.source.sample.Load() != nil }

// Shown returns the time of the last successful scrape or response, or the zero time.
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
	// Fresh is false without a scrape, after several failures in a row, or if the last scrape is
	// too old. Then strategies must not use Queue, Running and KV.
	Fresh bool `json:"fresh"`
	// Idle means that scraping stopped because no pool of the endpoint had a pick for a while.
	Idle bool `json:"idle,omitempty"`
	// Proven means that a request succeeded since the endpoint became stale.
	Proven bool `json:"proven,omitempty"`
	// Failing means that requests often fail. Trial means that a suspect endpoint may get one more
	// request.
	Failing bool `json:"failing,omitempty"`
	Trial   bool `json:"-"`
	// Silent is why the endpoint is suspect although no request fails, or nil. Given counts the
	// requests sent to it since it became suspect.
	Silent *Silence `json:"silent,omitempty"`
	Given  int64    `json:"-"`

	Queue   float64 `json:"queue"` // at the last scrape, like Running and KV
	Running float64 `json:"running"`
	KV      float64 `json:"kvCache"` // usage, 0 to 1
	// Adapters is nil if the last scrape shows no adapters.
	Adapters *Adapters `json:"adapters,omitempty"`
	// OthersQueue and OthersRunning are other clients' parts of Queue and Running.
	OthersQueue   float64 `json:"othersQueue,omitempty"`
	OthersRunning float64 `json:"othersRunning,omitempty"`
	// InFlight includes peers' requests.
	InFlight int64 `json:"inFlight"`
	// Unseen counts this process's requests since the last scrape began.
	Unseen int64 `json:"unseen"`
	// UnseenElsewhere is the growth of peers' requests in flight since that scrape began.
	UnseenElsewhere int64 `json:"-"`

	// Unread is as in Share, for all processes.
	Unread    int64 `json:"unread,omitempty"`
	Confirmed int64 `json:"-"`
	// Reading is the estimated time, in seconds, until the server has read all prompts sent to it.
	// While requests overlap, its errors add up; see Backlog.
	Reading float64 `json:"-"`
	// Rate is the prefill rate in tokens a second, 0 if unknown. RateFrom is its source.
	Rate     float64    `json:"rate,omitempty"`
	RateFrom RateSource `json:"rateFrom,omitempty"`
	Inferred float64    `json:"inferredRate,omitempty"`
	// Early means that the server sends first bytes before it reads prompts.
	Early bool `json:"early,omitempty"`
	// Hint is the rate that the first samples show, or 0. HintWeight is the number of samples,
	// divided by the number that Rate requires.
	Hint       float64 `json:"-"`
	HintWeight float64 `json:"-"`
	// Latency is nil until it is learned.
	Latency *Latency `json:"-"`
	// Prompt is the mean number of uncached tokens of recent requests, or 0.
	Prompt float64 `json:"-"`
	// Evicts is prefix.Server.Evicts; 0 if unknown.
	Evicts float64 `json:"-"`
}

// Backlog returns the estimated time, in seconds, until the server has read all prompts sent to it:
// at most the time that it needs for the unread ones, at this rate in tokens a second.
func (s *State) Backlog(rate float64) float64 {
	if s.Unread <= 0 || rate <= 0 {
		return 0
	}
	return min(max(s.Reading, float64(s.Confirmed)/2/rate), float64(s.Unread)/rate)
}

// Moment is nanoseconds since the process started, by the monotonic clock.
type Moment int64

// At converts a time.
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
	// FirstUse is called at the first MarkUsed. Optional, set before the snapshot is used.
	FirstUse func()

	registry *Registry
	slots    *Slots
	used     atomic.Int64 // last time MarkUsed notified the scrapers, since processStart
}

// Used returns the time of the pool's last pick, at most markEvery too early; zero without a pick.
func (s *Snapshot) Used() time.Time {
	if at := s.used.Load(); at != 0 {
		return processStart.Add(time.Duration(at))
	}
	return time.Time{}
}

// Find returns the counters of an address, or nil.
func (s *Snapshot) Find(addr netip.AddrPort) *Load {
	i, ok := slices.BinarySearchFunc(s.Endpoints, addr,
		func(e Endpoint, a netip.AddrPort) int { return e.Addr.Compare(a) })
	if !ok {
		return nil
	}
	return s.Endpoints[i].load
}
