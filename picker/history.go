package picker

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/penstock-project/penstock/picker/schedule"
)

// ResultSent is the result of a Record that is no pick: with Sent.
const ResultSent = "sent"

// SentTo is a request that was sent to an exporting cluster of an import without a pick of this
// process's: by an order or by weights, by a pick among the clusters, or as a spill.
type SentTo struct {
	// Declined means that no server there has begun the request: it went on to another cluster or
	// spill target, if one was left.
	Declined bool `json:"declined,omitempty"`
	// Details is why this gateway's Envoy has answered in its place, in Envoy's words
	// (%RESPONSE_CODE_DETAILS%); "" if the other cluster has answered.
	Details string `json:"details,omitempty"`
	// There is the ID that the other cluster's gateway has given the request; "" if it has kept it,
	// or is not known.
	There   string `json:"there,omitempty"`
	Spilled bool   `json:"spilled,omitempty"` // by a pool
}

// Record is one pick, for /debug/picks and penstock explain; or with Sent, a request that was sent
// to another cluster.
type Record struct {
	Time     time.Time `json:"time"`
	Pool     string    `json:"pool"`
	Strategy string    `json:"strategy"`
	// Choice is how strategy plugins chooses by scores, as the type of a picker; "" for others.
	Choice string `json:"choice,omitempty"`
	Model  string `json:"model,omitempty"` // if the pool reads bodies
	// Criticality of the request, if the strategy reads it.
	Criticality schedule.Criticality `json:"criticality,omitempty"`
	// Session is what strategy "session" has made of the request's session; "" for others.
	Session string `json:"session,omitempty"`
	// Follows shows where the response is that the request names; "" if it names none.
	Follows   string `json:"follows,omitempty"`
	Result    string `json:"result"` // "picked", "spilled", "relayed", or a Reason
	Status    int    `json:"status,omitempty"`
	Endpoints string `json:"endpoints,omitempty"` // as sent to Envoy
	Lease     string `json:"lease,omitempty"`
	// Exceeded are the limits because of which no endpoint was picked, as far as they are known: of
	// each pick that is answered 429, and of a sample of those that spill.
	Exceeded []schedule.Excess `json:"exceeded,omitempty"`
	// Prefill is the server that reads the prompt, and Encode those that encode images; "" for
	// those of Endpoints. Missing are the stages that no server was free for.
	Prefill string   `json:"prefill,omitempty"`
	Encode  string   `json:"encode,omitempty"`
	Missing []string `json:"missing,omitempty"`
	// OutOfRange lists addresses that a remote picker named outside the declared ranges; Error is
	// why it did not answer.
	OutOfRange []string `json:"outOfRange,omitempty"`
	Error      string   `json:"error,omitempty"`
	// Request is the ID of the request (x-request-id), Gateway whose it is, and Picker the process
	// that picked; Tokens is the length of its prompt, if it is known, or if it decides and is
	// estimated by the content-length.
	Request string `json:"request,omitempty"`
	Gateway string `json:"gateway,omitempty"`
	Picker  string `json:"picker,omitempty"`
	Tokens  int    `json:"tokens,omitempty"`
	// Bytes of the request's body, as far as the pick has read it; 0: it has not. Served is the
	// model that the server gets in place of Model.
	Bytes  int    `json:"bytes,omitempty"`
	Served string `json:"served,omitempty"`
	// Stages are those that the request has passed, in their order: in the records of one request
	// (Picks.Request).
	Stages []Passed `json:"stages,omitempty"`
	// Processor is what the pool's processor has made of the request; nil if it was not asked.
	Processor *Processed `json:"processor,omitempty"`
	// Waited is how long flow control has held the request before the pick.
	Waited time.Duration `json:"waited,omitempty"`
	// Candidates is the number of endpoints that passed the filters. Compared are the best of them,
	// 8 at most: first those that the pick names.
	Candidates int      `json:"candidates,omitempty"`
	Compared   []Choice `json:"compared,omitempty"`
	// Lacks counts the servers that are left out because they lack the model; nil: none is.
	Lacks *Lacks  `json:"lacks,omitempty"`
	Sent  *SentTo `json:"sent,omitempty"`
	// Outcome is what became of the request, as far as the access log has reported it; nil for a
	// pick without a lease.
	Outcome *Outcome `json:"outcome,omitempty"`
	// Verdicts on the endpoints at the moment of the choice: the request is not in flight yet, and
	// its prompt is not cached. Only a sample of the picks has them. Omitted counts the others, by
	// the filter that removed them, if there are more than 16 endpoints.
	Verdicts []schedule.Verdict `json:"verdicts,omitempty"`
	Omitted  map[string]int     `json:"omitted,omitempty"`
}

// Passed is a stage of a pick that its request has passed.
type Passed struct {
	Stage   string        `json:"stage"`
	Took    time.Duration `json:"took"` // of stage read, until the body has arrived
	Decided string        `json:"decided,omitempty"`
}

const (
	// historySize is how many records a pool keeps at most. Where pools are many, each keeps fewer,
	// so that all together keep about maxRecords; but at least minHistory. A record with 16
	// verdicts takes about 10 KiB.
	historySize = 64
	minHistory  = 4
	maxRecords  = 1024
	// historyEvery bounds the cost of verdicts: at most one pick of a pool gets them in this time,
	// or in historyPerEndpoint for each endpoint of a large pool. So they take less than a
	// thousandth of a core.
	historyEvery       = 20 * time.Millisecond
	historyPerEndpoint = 200 * time.Microsecond
	// maxVerdicts is how many a record has.
	maxVerdicts = 16
)

// history keeps a pool's last recorded picks.
type history struct {
	last atomic.Int64 // when the last record was made, in nanoseconds since start
	next atomic.Uint64
	size atomic.Int64 // how many are kept; 0 for a pool that has been removed: notes still point to its history
	ring [historySize]atomic.Pointer[Record]
}

// historyOf is how many records each of a number of pools keeps.
func historyOf(pools int) int64 {
	return int64(min(max(maxRecords/max(pools, 1), minHistory), historySize))
}

// start is the zero of times kept in atomics. Differences to it are monotonic: the clock may be set
// meanwhile.
var start = time.Now()

// newHistory returns a history that keeps nothing until resize.
func newHistory() *history { return new(history) }

// resize sets how many records are kept, and drops the older ones.
func (h *history) resize(size int64) {
	h.size.Store(size)
	newest := h.next.Load()
	for i := size; i < historySize; i++ {
		h.ring[(newest-uint64(i))%historySize].Store(nil)
	}
}

// due reports whether a pick of a pool with a number of endpoints is to be recorded: none was a
// moment ago. It is true for one pick at a time.
func (h *history) due(now time.Time, endpoints int) bool {
	last, at := h.last.Load(), int64(now.Sub(start))
	return (last == 0 || at-last >= int64(max(historyEvery, time.Duration(endpoints)*historyPerEndpoint))) &&
		h.last.CompareAndSwap(last, at)
}

// add keeps a record.
func (h *history) add(r *Record) {
	size := uint64(h.size.Load())
	if size == 0 {
		return
	}
	number := h.next.Add(1)
	h.ring[(number-size)%historySize].Store(nil)
	h.ring[number%historySize].Store(r)
}

// list returns the records, newest first.
func (h *history) list() []*Record {
	records := []*Record{}
	newest := h.next.Load()
	for i := range uint64(historySize) {
		if r := h.ring[(newest-i)%historySize].Load(); r != nil {
			records = append(records, r)
		}
	}
	return records
}

// record describes a pick. A choice that opened a lease has its verdicts from before that (rank);
// the others count nowhere.
func (k *pick) record() *Record {
	pool, a, at := k.pool, &k.answer, k.started
	request := pool.scheduled(k.request, at)
	request.External = k.query.External
	if k.verdicts == nil {
		k.verdicts = pool.describe(pool.strategy, &request, at, k.allowed, k.leftOut())
	}
	record := &Record{
		Time: at, Pool: pool.Name, Strategy: pool.strategyName(), Choice: pool.choiceName(), Model: request.Model,
		Session: k.session.String(), Result: k.result, Status: a.Status, Endpoints: a.Endpoints.String(),
		Lease:      a.Lease.String(),
		OutOfRange: k.outOfRange, Error: k.problem,
		Prefill: k.further.text(stagePrefill), Encode: k.further.text(stageEncode), Missing: k.further.lacks,
		Exceeded: k.exceeded,
	}
	if k.lacks != (Lacks{}) {
		lacks := k.lacks
		record.Lacks = &lacks
	}
	record.Verdicts, record.Omitted = trim(k.verdicts, record.Endpoints)
	if schedule.UsesCriticality(&pool.options) || pool.sheds(request.Criticality) ||
		request.Objective != (schedule.Objective{}) {
		record.Criticality = cmp.Or(request.Criticality, schedule.Standard)
	}
	return record
}
