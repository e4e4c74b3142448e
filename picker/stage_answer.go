package picker

import (
	"slices"
	"strconv"
	"time"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/schedule"
)

// answer writes the chosen destinations into the gateway's answer, best first, and sets the
// request's tracker. It ends no pick. For gateways that Penstock does not configure, it adapts the
// answer, even if an earlier stage ended the pick.
func answer(k *pick) {
	if !k.over {
		k.target.answer(k)
	}
	if k.result != "" {
		forGateway(k.request, &k.answer)
	}
}

// Spill targets follow the pods in every pick. Without a pod that has room, a pick has only the
// spill targets, whatever the failure mode is.
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
			k.lease.Waits() // the open call will report the first byte
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

func list(ranked []schedule.Candidate, spill []string, retries int, memory []string) extproc.Answer {
	for i := range ranked {
		memory = append(memory, ranked[i].Endpoint.Text)
	}
	return listed(append(memory, spill...), retries)
}

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

func forGateway(r *extproc.Request, a *extproc.Answer) {
	if r.One && len(a.Endpoints) > 1 {
		a.Endpoints, a.MaxRetries = a.Endpoints[:1], 0
	}
	if !r.Reported() && a.MaxRetries == 0 {
		a.MaxRetries = -1
	}
}

// listed returns an answer with these endpoints and as many retries as further endpoints, or
// retries if it is larger. The list then repeats the endpoints: a retry beyond the end of the list
// would use the fallback of Envoy's cluster, which a FailClose pool does not have.
func listed(texts []string, retries int) extproc.Answer {
	a := extproc.Answer{MaxRetries: max(len(texts)-1, retries)}
	for n := len(texts); len(texts) < min(1+retries, maxEndpoints); {
		texts = append(texts, texts[len(texts)%n])
	}
	a.Endpoints = texts
	return a
}

// leastTries is the minimum number of Envoy's attempts for a pick with several servers; a shorter
// list repeats its servers. A working server may fail once, because it closes a connection just
// when the request arrives (llama.cpp does so after each stream).
const leastTries = 5

func (pool *pool) retries(user int, ranked []schedule.Candidate) int {
	if len(ranked) < 2 || pool.Fallbacks == 0 {
		return user
	}
	return max(user, leastTries-1)
}

// retries returns the user's number of retries: the larger of the route's policy and a trusted
// sender's header. A gateway that Penstock does not configure may read only one address (Envoy's
// ORIGINAL_DST clusters), so its lists never repeat.
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

var dropped = map[string]string{
	ReasonNoEndpoints: "rejected-no-endpoints",
	ReasonSubset:      "rejected-no-endpoints",
	ReasonFull:        "rejected-saturated",
	ReasonShed:        "rejected-saturated",
	ReasonQueue:       "rejected-saturated",
	ReasonTTL:         "rejected-ttl-expired",
	ReasonCanceled:    "rejected-context-cancelled",
	ReasonNotResumed:  "rejected-no-endpoints",
	ReasonResumeTime:  "rejected-no-endpoints",
	ReasonResuming:    "rejected-saturated",
}

func quoted(name string) string {
	if name == "" {
		return "(none named)"
	}
	return name
}

func answeredBy(r *Record) string {
	if r.Status != 0 {
		return strconv.Itoa(r.Status) + " " + r.Result
	}
	return r.Endpoints
}
