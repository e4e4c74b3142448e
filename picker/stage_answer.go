package picker

import (
	"slices"
	"strconv"
	"time"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/schedule"
)

// answer names in the gateway's answer what was chosen, best first, and what follows the request
// until it ends. It ends no pick, and adapts the answer of one that has ended to gateways that
// Penstock does not configure.
func answer(k *pick) {
	if !k.over {
		k.target.answer(k)
	}
	if k.result != "" {
		forGateway(k.request, &k.answer)
	}
}

// Spill targets follow the pods in every pick. If every pod is full, or there is none, they are the
// whole pick, whatever the pool's failure mode: a cluster that falls back to its spill endpoints
// anyway gets them one message earlier.
func (servers) answer(k *pick) {
	track := newTracker()
	a := &k.answer
	again := retries(k.request)
	if k.request.Reported() {
		again = k.pool.retries(again, k.ranked)
	}
	*a = list(k.ranked, k.spillTo, again, track.texts[:0])
	if len(k.ranked) > 0 {
		k.result = resultPicked
		if sessionBy(k.query.Session.By)&bySessionRoute != 0 {
			k.keep()
		}
	}
	k.nameFurther(a)
	if k.pool.dynamo() != nil {
		a.TokenData = k.ids
	}
	k.addProcessed(a)
	if k.lease == nil {
		return
	}
	k.sent()
	if track.untilEnd = !k.request.Reported(); track.untilEnd {
		track.sent = time.Now()
		k.lease.KeepUntilEnd()
		if track.shown = k.request.ShowsFirstByte(); track.shown {
			k.lease.Waits() // the call reports the first byte at once
		}
	}
	k.counted(a)
	k.limitHeaders(a)
	a.Keeps = k.keeps()
	track.picker, track.lease = k.picker, k.lease
	track.session, track.pool = k.query.Session.ID, k.pool
	if track.imported = k.request.Imported; track.imported {
		k.picker.others.imported.Add(1)
	}
	a.Track = track
	if k.picker.config.Protocol.Conformance {
		a.Track = servedReport{track}
	}
}

// list answers with ranked endpoints, and with spill targets behind them. The answer's list is in
// memory if that is large enough.
func list(ranked []schedule.Candidate, spill []string, retries int, memory []string) extproc.Answer {
	for i := range ranked {
		memory = append(memory, ranked[i].Endpoint.Text)
	}
	return listed(append(memory, spill...), retries)
}

// addProcessed adds to a pick's answer what the pool's processor has answered.
func (k *pick) addProcessed(a *extproc.Answer) {
	found := k.processed.Answer
	if found == nil {
		return
	}
	a.TokenIDs = found.Tokens
	if k.pool.dynamo() != nil && found.Count > 0 {
		a.TokenData = found.Tokens
	}
	if key := found.TokenKey; key != "" {
		a.Headers = append(slices.Clip(a.Headers), extproc.Header{Name: endpointpicker.HeaderTokensKey, Value: key})
	}
}

// forGateway leaves of an answer what a gateway that Penstock does not configure can read. It has a
// retry policy of its own.
func forGateway(r *extproc.Request, a *extproc.Answer) {
	if r.One && len(a.Endpoints) > 1 {
		a.Endpoints, a.MaxRetries = a.Endpoints[:1], 0
	}
	if !r.Reported() && a.MaxRetries == 0 {
		a.MaxRetries = -1
	}
}

// listed answers with a list of endpoints and with one retry for each further endpoint, or the
// user's retries if they are more. In that case the list repeats until it is long enough: a retry
// beyond its end would use the cluster's fallback, which a FailClose pool lacks.
func listed(texts []string, retries int) extproc.Answer {
	a := extproc.Answer{MaxRetries: max(len(texts)-1, retries)}
	for n := len(texts); len(texts) < min(1+retries, maxEndpoints); {
		texts = append(texts, texts[len(texts)%n])
	}
	a.Endpoints = texts
	return a
}

// leastTries is how often a request is sent in all until it is answered, with a pick of several
// servers: a list of fewer repeats, so that no more servers than Pool.Fallbacks allows get the
// request. A server that works may end a connection as a request arrives there, while the next of
// the list is dead: llama.cpp ends each one after a stream, unannounced, and Envoy prefers the
// connection that it used last.
const leastTries = 5

// retries returns how often a request is sent again: as often as the user wants, at least.
func (pool *pool) retries(user int, ranked []schedule.Candidate) int {
	if len(ranked) < 2 || pool.Fallbacks == 0 {
		return user
	}
	return max(user, leastTries-1)
}

// retries returns the user's number of retries: the route's policy, or the header of a sender that
// the gateway trusts. A gateway that Penstock does not configure may read no list (Envoy's
// ORIGINAL_DST clusters), so none repeats there.
func retries(r *extproc.Request) int {
	if !r.Reported() {
		return 0
	}
	return max(r.Retries, extproc.Number(r.Headers.Header("x-envoy-max-retries")))
}

func immediate(status int, reason, message string) extproc.Answer {
	a := extproc.Answer{Status: status, Reason: reason, Message: message, MaxRetries: -1, Dropped: dropped[reason]}
	if status == 429 {
		a.RetryAfter = time.Second
	}
	return a
}

// dropped are the values of x-llm-d-request-dropped-reason, as llm-d's router has them.
var dropped = map[string]string{
	ReasonNoEndpoints: "rejected-no-endpoints",
	ReasonSubset:      "rejected-no-endpoints",
	ReasonFull:        "rejected-saturated",
	ReasonShed:        "rejected-saturated",
	ReasonQueue:       "rejected-saturated",
	ReasonTTL:         "rejected-ttl-expired",
	ReasonCanceled:    "rejected-context-cancelled",
}

func quoted(name string) string {
	if name == "" {
		return "(none named)"
	}
	return name
}

// answeredBy is answer for a reader.
func answeredBy(r *Record) string {
	if r.Status != 0 {
		return strconv.Itoa(r.Status) + " " + r.Result
	}
	return r.Endpoints
}
