package endpoint

import (
	"sync"
	"sync/atomic"
	"time"
)

// terms of a prediction: a constant, and Features.
const terms = 4

const (
	// decay is the weight of a sample relative to that of the next one: about the last 50 count.
	decay = 0.98
	// confidence is how many samples the prior counts for.
	confidence = 4
	// maxLatency bounds a sample, in seconds: one that hangs must not outweigh all others.
	maxLatency = 120
	// A server that answers maxImplausible prompts in a row within a step, each of which takes it plausiblePrefill seconds to read, sends
	// its headers early.
	plausiblePrefill = 0.25
	maxImplausible   = 8
	// minTokens is the least number of tokens that shows the time between two.
	minTokens = 8
)

// Priors, in seconds for each term: how an engine with steps of 20 ms behaves. scales are how large a term usually is.
var (
	priorTTFT = [terms]float64{0.02, 1, 0.05, 0.0005}
	priorTPOT = [terms]float64{0.02, 0, 0, 0.0005}
	scales    = [terms]float64{1, 0.5, 4, 16}
)

// Features are what a server's latency is predicted by, as of a pick.
type Features struct {
	Prefill  float64 // seconds in which it reads the prompts before this one, and this one
	Queue    float64 // requests that wait
	InFlight float64 // requests
}

func (f *Features) terms() [terms]float64 { return [terms]float64{1, f.Prefill, f.Queue, f.InFlight} }

// Latency predicts the latency of a server. It never changes; nil is that of a server of which nothing is learned.
type Latency struct{ ttft, tpot [terms]float64 }

var unlearned = Latency{priorTTFT, priorTPOT}

// Predict returns the time to the first token, and that between two, in seconds.
func (l *Latency) Predict(f *Features) (ttft, tpot float64) {
	if l == nil {
		l = &unlearned
	}
	x := f.terms()
	return dot(&l.ttft, &x), dot(&l.tpot, &x)
}

func dot(a, b *[terms]float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// latency learns from the access log how long a server's responses take: two linear regressions, in which older samples count less
// and the prior stands for a few. A server that is not like the prior is known after some ten requests.
type latency struct {
	current atomic.Pointer[Latency]

	mu          sync.Mutex
	ttft, tpot  regression
	implausible int  // times to a first token in a row
	early       bool // it sends the response's headers before it has read the prompt: their time shows nothing
}

// learner returns the server's latency, made on first use: most servers of a process that picks for few pools have none.
func (l *Load) learner() *latency {
	if of := l.latency.Load(); of != nil {
		return of
	}
	l.latency.CompareAndSwap(nil, &latency{ttft: regression{prior: &priorTTFT}, tpot: regression{prior: &priorTPOT}})
	return l.latency.Load()
}

// predictor returns what is learned; nil if nothing is.
func (l *Load) predictor() *Latency {
	if of := l.latency.Load(); of != nil {
		return of.current.Load()
	}
	return nil
}

// publish makes what is learned current. mu is held.
func (l *latency) publish() {
	l.current.Store(&Latency{l.ttft.solve(), l.tpot.solve()})
}

// firstToken takes the time to a first token: exactly, or, of a server that sends headers early, between two reports.
func (l *latency) firstToken(f *Features, after, from, until time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.Prefill > plausiblePrefill {
		if l.implausible++; after > step {
			l.implausible = 0
		}
		if l.implausible >= maxImplausible {
			l.expectEarly()
		}
	}
	y := after.Seconds()
	if l.early {
		y, _ = l.current.Load().Predict(f)
		y = min(max(y, from.Seconds()), until.Seconds())
	}
	l.ttft.add(f.terms(), min(y, maxLatency))
	l.publish()
}

// headersAreEarly records that the server sends headers before the first token.
func (l *latency) headersAreEarly() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expectEarly()
}

// expectEarly has times of headers ignored. mu is held.
func (l *latency) expectEarly() {
	if !l.early {
		l.early = true
		l.ttft = regression{prior: &priorTTFT} // what it learned was the time of headers
		l.publish()
	}
}

func (l *latency) perToken(f *Features, each float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tpot.add(f.terms(), min(each, maxLatency))
	l.publish()
}

// regression is a linear regression with decay, towards a prior.
type regression struct {
	prior *[terms]float64
	a     [terms][terms]float64 // sums of products of two terms
	b     [terms]float64        // sums of products with the result
}

func (r *regression) add(x [terms]float64, y float64) {
	for i := range terms {
		for k := range terms {
			r.a[i][k] = decay*r.a[i][k] + x[i]*x[k]
		}
		r.b[i] = decay*r.b[i] + x[i]*y
	}
}

// solve returns the weights. None is negative: more work takes no less time.
func (r *regression) solve() (w [terms]float64) {
	a, b := r.a, r.b
	for i := range terms {
		weight := confidence * scales[i] * scales[i]
		a[i][i] += weight
		b[i] += weight * r.prior[i]
	}
	for i := range terms { // Gauss; a is positive definite, so no pivot is zero
		for k := i + 1; k < terms; k++ {
			f := a[k][i] / a[i][i]
			for m := i; m < terms; m++ {
				a[k][m] -= f * a[i][m]
			}
			b[k] -= f * b[i]
		}
	}
	for i := terms - 1; i >= 0; i-- {
		w[i] = b[i]
		for k := i + 1; k < terms; k++ {
			w[i] -= a[i][k] * w[k]
		}
		w[i] /= a[i][i]
	}
	for i := range w {
		w[i] = max(w[i], 0)
	}
	return w
}
