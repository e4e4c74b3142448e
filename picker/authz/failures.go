package authz

import (
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Causes of authorization calls that end with an error. Envoy repeats a failed call, at another
// process if it can.
const (
	causePolicy = "policy" // the caller's Gateway has no route with the policy, or not yet
	causeKeys   = "keys"   // the Table lacks the policy, or was never filled
	causeTokens = "tokens" // the keys of a token's issuer are not fetched yet
	causeLate   = "late"   // the call timed out before its answer
	causeFull   = "full"   // the process watches maxOpen open requests
)

var causes = []string{causePolicy, causeKeys, causeTokens, causeLate, causeFull}

const (
	logEvery = 10 * time.Second
	// recently bounds the time from a failed call to Envoy's log entry of its request.
	recently = 2 * time.Second
)

// Unanswered is a request that Envoy answered with 503 for lack of an answer from an authorization
// service.
type Unanswered struct {
	// Route is the name of Envoy's route. Caller is set if our check permitted the request and then
	// the route's own external authorization service failed, else "".
	Route, Caller string
	Took          time.Duration
}

// Failures counts and logs requests whose authorization failed, and logs requests that invalid
// policies deny. Each kind gets at most one log line in 10 s. Its methods are safe for concurrent
// use.
type Failures struct {
	log *slog.Logger
	now func() time.Time

	mu       sync.Mutex
	calls    map[string]uint64
	last     string
	lastWhy  string
	lastAt   time.Time
	requests uint64
	lines    limiter
	policies limiter
}

type limiter struct {
	logged   time.Time
	unlogged int
}

// due returns whether to write a line now, and how many lines were suppressed since the last.
func (l *limiter) due(now time.Time) (others int, log bool) {
	if !l.logged.IsZero() && now.Sub(l.logged) < logEvery {
		l.unlogged++
		return 0, false
	}
	others, l.logged, l.unlogged = l.unlogged, now, 0
	return others, true
}

// NewFailures makes a Failures.
func NewFailures(log *slog.Logger, now func() time.Time) *Failures {
	return &Failures{log: log, now: now, calls: map[string]uint64{}}
}

func (f *Failures) call(cause, why string) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[cause]++
	f.last, f.lastWhy, f.lastAt = cause, why, f.now()
}

// Request records a request that Envoy answered with 503 because its check got no answer.
func (f *Failures) Request(u Unanswered) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	now := f.now()
	if others, log := f.lines.due(now); log {
		f.log.Warn("a request got 503 authorization_unavailable", "route", u.Route, "took", u.Took,
			"cause", f.cause(&u, now), "others", others)
	}
}

func (f *Failures) closed(policy string) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if others, log := f.policies.due(f.now()); log {
		f.log.Warn("a request got 403 policy_invalid: the policy is invalid and lets nothing in", "policy", policy,
			"others", others)
	}
}

// gateTryTimeout is Envoy's timeout for one try of an authorization call (translator/envoy).
const gateTryTimeout = 60 * time.Millisecond

// The caller holds f.mu.
func (f *Failures) cause(u *Unanswered, now time.Time) string {
	switch {
	case u.Caller != "":
		return "the gate let " + u.Caller + " in, and then the route's external authorization had no answer"
	case !f.lastAt.IsZero() && now.Sub(f.lastAt) < recently:
		return f.last + ": " + f.lastWhy
	case u.Took >= gateTryTimeout:
		return "no process has answered the gate in time: the machine may be overloaded"
	}
	return "no process could be reached, or the route's external authorization failed"
}

var (
	unansweredDesc = prometheus.NewDesc("penstock_gate_unavailable_total",
		"Requests that got 503 authorization_unavailable: no process has answered the gate in time, or the "+
			"route's external authorization failed.", nil, nil)
	failedCallsDesc = prometheus.NewDesc("penstock_gate_errors_total",
		"Calls of gates that this process answered with an error, by cause: policy (it gates no route of the "+
			"Gateway, or not yet), keys (not read yet), tokens (their issuer's keys are not fetched yet), late "+
			"(after the time limit), or full (too many open requests are watched). Envoy repeats such calls.",
		[]string{"cause"}, nil)
)

// Describe implements prometheus.Collector.
func (f *Failures) Describe(ch chan<- *prometheus.Desc) {
	ch <- unansweredDesc
	ch <- failedCallsDesc
}

// Collect implements prometheus.Collector.
func (f *Failures) Collect(ch chan<- prometheus.Metric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(unansweredDesc, prometheus.CounterValue, float64(f.requests))
	for _, cause := range causes {
		ch <- prometheus.MustNewConstMetric(failedCallsDesc, prometheus.CounterValue, float64(f.calls[cause]), cause)
	}
}
