package usage

import (
	"sync"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/request"
)

const (
	// A report of more than maxTokens tokens is ignored.
	maxTokens = 1 << 24
	// tokenBytes is the assumed size of a token in JSON. envelopeBytes is the assumed size of a
	// response without its text and without usage. Both are in bytes.
	tokenBytes, envelopeBytes = 4, 250
	// gzip makes a whole response or a stream smaller by these assumed factors.
	encodedWhole, encodedStream = 2.5, 12
	// priorTokens is the weight of an assumed size against measured sizes, in tokens.
	priorTokens = 256
	// After memoryTokens measured tokens, the weight of earlier responses is halved.
	memoryTokens  = 1 << 20
	minOutput     = 16
	maxEstimators = 1000
)

// eventBytes is the assumed size of a stream event with one token, in bytes, without the model's
// name.
var eventBytes = map[request.Kind]float64{
	request.ChatCompletions: 200, request.Completions: 190, request.Messages: 115, request.Responses: 230,
}

const otherEventBytes = 200

type estimates struct {
	mu    sync.Mutex
	pools map[poolKind]*estimator
}

type poolKind struct {
	pool string
	kind request.Kind
}

type estimator struct{ prompts, events ratio }

// ratio is the quotient of two sums. The weight of earlier terms decays.
type ratio struct{ over, under float64 }

func (r *ratio) add(over, under float64) {
	r.over, r.under = r.over+over, r.under+under
	if r.under > memoryTokens {
		r.over, r.under = r.over/2, r.under/2
	}
}

func (r *ratio) value(prior float64) float64 {
	return (r.over + prior*priorTokens) / (r.under + priorTokens)
}

// The caller holds e.mu.
func (e *estimates) of(k poolKind) *estimator {
	if e.pools == nil {
		e.pools = map[poolKind]*estimator{}
	}
	at := e.pools[k]
	if at == nil {
		if len(e.pools) >= maxEstimators {
			k = poolKind{kind: k.kind}
		}
		if at = e.pools[k]; at == nil {
			at = &estimator{}
			e.pools[k] = at
		}
	}
	return at
}

func (e *estimates) count(u *accesslog.Used) (c Counts) {
	if u.Denied {
		c.Denied = 1
		return c
	}
	c.Requests = 1
	if u.Status == 0 || u.Status >= 400 || u.Cut {
		c.Failed = 1
	}
	if u.Status < 200 || u.Status >= 300 {
		return c // no model has read the prompt
	}
	c.GPUSeconds = max(u.GPU.Seconds(), 0)
	e.mu.Lock()
	defer e.mu.Unlock()
	at := e.of(poolKind{u.Pool, u.Kind})
	if credible(u) {
		at.learn(u)
		c.Input, c.Output = int64(u.Input), int64(u.Output)
		c.Cached = int64(min(u.CacheRead, u.Input))
		return c
	}
	if !u.Stream && u.PromptTokens <= 0 && u.Kind == request.OtherKind {
		return c // neither a stream nor a known API
	}
	c.Estimated = 1
	c.Input, c.Output = at.input(u), at.output(u)
	c.Cached = min(max(u.PromptCached, 0), c.Input)
	return c
}

func credible(u *accesslog.Used) bool {
	return u.Accounted && u.Input <= maxTokens && u.Output <= maxTokens && u.Input+u.Output > 0
}

func promptTokens(u *accesslog.Used) float64 {
	if u.PromptTokens > 0 {
		return float64(min(u.PromptTokens, maxTokens))
	}
	return float64(min(max(u.Received, 0), maxTokens)) / tokenBytes
}

func (at *estimator) learn(u *accesslog.Used) {
	if estimated := promptTokens(u); estimated > 0 && u.Input > 0 {
		at.prompts.add(float64(u.Input), estimated)
	}
	if u.Stream && u.Output >= minOutput && u.Sent > 0 && !u.Cut {
		at.events.add(float64(u.Sent), float64(u.Output))
	}
}

func (at *estimator) input(u *accesslog.Used) int64 {
	return int64(min(promptTokens(u)*at.prompts.value(1), maxTokens))
}

func (at *estimator) output(u *accesslog.Used) int64 {
	sent := float64(min(max(u.Sent, 0), 1<<40))
	switch {
	case sent == 0 || u.Kind == request.Embeddings || u.Kind == request.Rerank || u.Kind == request.GRPCEmbed:
		return 0 // no text in the response
	case !u.Stream:
		if u.Encoded {
			sent *= encodedWhole
		}
		return int64(min(max((sent-envelopeBytes)/tokenBytes, 1), maxTokens))
	case u.Encoded:
		sent *= encodedStream
	}
	prior, ok := eventBytes[u.Kind]
	if !ok {
		prior = otherEventBytes
	}
	if u.Kind == request.ChatCompletions || u.Kind == request.Completions {
		prior += float64(min(len(u.Model), maxName))
	}
	return int64(min(sent/at.events.value(prior), maxTokens))
}
