package endpoint

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// A prediction sums up a constant term and a term for each of the three Features. The
	// prediction of the time after the first byte has two more terms: the number of further tokens,
	// and this number times the requests in flight.
	terms     = 4
	restTerms = 6
)

const (
	// Each sample multiplies the weight of earlier samples by decay, so about the last 50 count.
	decay = 0.98
	// maxCounted and maxRequests bound the tokens and requests in a sample, because clients and
	// servers may send absurd numbers.
	maxCounted  = 1 << 20
	maxRequests = 1 << 14
	// maxLatency bounds the time in a sample, in seconds, so that one request that hangs does not
	// outweigh all others.
	maxLatency = 120
)

// priorFirst and priorRest are the coefficients before the first sample, in seconds for one unit of
// each term: a step takes 20 ms. scales has each term's usual size.
var (
	priorFirst = [restTerms]float64{0.02, 1, 0.05, 0.0005}
	priorRest  = [restTerms]float64{4: 0.02, 5: 0.0005}
	scales     = [restTerms]float64{1, 0.5, 4, 16, 100, 1600}
	// confidence is the weight of each prior coefficient, in samples. It is low for the token
	// terms: if several terms can explain a time, the token terms should explain it.
	confidence = [restTerms]float64{4, 4, 4, 4, 0.02, 0.02}
)

// Features predict a server's latency. They are known at a pick.
type Features struct {
	Prefill  float64 // seconds to read the earlier prompts and this one
	Queue    float64
	InFlight float64
}

func (f *Features) terms() [terms]float64 {
	return [terms]float64{1, min(f.Prefill, maxLatency), min(f.Queue, maxRequests), min(f.InFlight, maxRequests)}
}

// Latency is an immutable predictor of a server's latency. A nil Latency predicts with the priors.
type Latency struct{ ttft, tpot [terms]float64 }

var unlearned = predictor(&priorFirst, &priorRest, false)

func predictor(first, rest *[restTerms]float64, early bool) *Latency {
	l := &Latency{tpot: [terms]float64{rest[4], 0, 0, rest[5]}}
	for i := range terms {
		if l.ttft[i] = first[i]; early {
			l.ttft[i] += rest[i]
		}
	}
	return l
}

// Predict returns the time to the first token, and the time between two tokens, in seconds.
func (l *Latency) Predict(f *Features) (ttft, tpot float64) {
	if l == nil {
		l = unlearned
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

// latency learns a server's latency by two linear regressions: first fits the time to the first
// byte, and rest the time after it. Older samples count less. If a server sends early events, the
// predicted time to the first token also includes the terms of rest without the number of tokens.
type latency struct {
	current atomic.Pointer[Latency]
	lesson  atomic.Int64

	mu          sync.Mutex
	first, rest regression
	early       float64 // decaying share of responses with a first byte before the server can have read the prompt
}

func (l *Load) learner() *latency {
	if learned := l.latency.Load(); learned != nil {
		return learned
	}
	l.latency.CompareAndSwap(nil, &latency{first: regression{prior: &priorFirst}, rest: regression{prior: &priorRest}})
	return l.latency.Load()
}

func (l *Load) predictor() *Latency {
	if learned := l.latency.Load(); learned != nil {
		return learned.current.Load()
	}
	return nil
}

func (f *Features) row(more float64) [restTerms]float64 {
	x := f.terms()
	row := [restTerms]float64{4: more, 5: more * x[3]}
	copy(row[:], x[:])
	return row
}

// The caller holds mu.
func (l *latency) sendsEarly() bool { return l.early > l.first.count*(1-decay)/2 }

func (l *latency) sentFirst(f *Features, after time.Duration, again bool) {
	row := f.row(0)
	l.mu.Lock()
	defer l.mu.Unlock()
	if again {
		l.first.shorten(&row, after.Seconds())
	}
	l.early *= decay
	if after <= step || after.Seconds() < f.Prefill/4 {
		l.early += 1 - decay
	}
	l.learn(&l.first, row, after)
}

func (l *latency) sentRest(f *Features, took time.Duration, tokens int64, again bool) {
	row := f.row(float64(min(tokens, maxCounted) - 1))
	l.mu.Lock()
	defer l.mu.Unlock()
	if again {
		l.rest.shorten(&row, took.Seconds())
	}
	l.learn(&l.rest, row, took)
}

// The caller holds mu.
func (l *latency) learn(r *regression, row [restTerms]float64, took time.Duration) {
	y, weight := min(took.Seconds(), maxLatency), 1.0
	if r == &l.rest { // a longer response has a larger error, so it counts less
		weight = 1 / ((0.1 + y) * (0.1 + y))
	}
	r.add(row, y, weight)
	first, rest := l.first.solve(), l.rest.solve()
	l.current.Store(predictor(&first, &rest, l.sendsEarly()))
}

type regression struct {
	prior         *[restTerms]float64
	a             [restTerms][restTerms]float64 // sums of products of each pair of terms
	b             [restTerms]float64            // sums of products of each term with the measured time
	count, weight float64
}

func (r *regression) add(x [restTerms]float64, y, weight float64) {
	r.count, r.weight = decay*r.count+1, decay*r.weight+weight
	for i := range x {
		for k := range x {
			r.a[i][k] = decay*r.a[i][k] + weight*x[i]*x[k]
		}
		r.b[i] = decay*r.b[i] + weight*x[i]*y
	}
}

// solve returns the coefficients of the terms, none of them negative: more work takes no less time.
func (r *regression) solve() (w [restTerms]float64) {
	a, b := r.a, r.b
	mean := 1.0
	if r.count > 0 {
		mean = r.weight / r.count
	}
	for i := range w {
		weight := mean * confidence[i] * scales[i] * scales[i]
		a[i][i] += weight
		b[i] += weight * r.prior[i]
	}
	for i := range w { // Gaussian elimination; a is positive definite, so no pivot is zero
		for k := i + 1; k < restTerms; k++ {
			f := a[k][i] / a[i][i]
			for m := i; m < restTerms; m++ {
				a[k][m] -= f * a[i][m]
			}
			b[k] -= f * b[i]
		}
	}
	for i := restTerms - 1; i >= 0; i-- {
		w[i] = b[i]
		for k := i + 1; k < restTerms; k++ {
			w[i] -= a[i][k] * w[k]
		}
		w[i] /= a[i][i]
	}
	for i := range w {
		w[i] = max(w[i], 0)
	}
	return w
}
