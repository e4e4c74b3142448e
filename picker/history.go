package picker

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/penstock-project/penstock/picker/schedule"
)

// ResultSent is the result of a Record whose Sent is not nil.
const ResultSent = "sent"

// SentTo is a request to an exporting cluster of an import. This process did not pick for it: the
// cluster was chosen in order, by weights, by a pick among the clusters, or as a spill.
type SentTo struct {
	// Declined means that no server there has begun the request. It went to the next cluster or
	// spill target.
	Declined bool `json:"declined,omitempty"`
	// Details is %RESPONSE_CODE_DETAILS% if this gateway's Envoy responded itself, or "".
	Details string `json:"details,omitempty"`
	// The field There has the request's ID in the other cluster; it is "" if the IDs are equal, or
	// it is unknown.
	There   string `json:"there,omitempty"`
	Spilled bool   `json:"spilled,omitempty"` // a pool spilled the request
}

// Record is one pick, or, if Sent is set, a request sent to another cluster.
type Record struct {
	Time     time.Time `json:"time"`
	Pool     string    `json:"pool"`
	Strategy string    `json:"strategy"`
	// Choice is the type of the picker in strategy plugins, or "".
	Choice string `json:"choice,omitempty"`
	Model  string `json:"model,omitempty"` // if the pool reads bodies
	// Criticality of the request, if the strategy reads it.
	Criticality schedule.Criticality `json:"criticality,omitempty"`
	// Session describes the request's session for strategy "session", or "".
	Session string `json:"session,omitempty"`
	// Follows describes the result for a stored response that the request names.
	Follows   string `json:"follows,omitempty"`
	Result    string `json:"result"` // "picked", "spilled", "relayed", or a Reason
	Status    int    `json:"status,omitempty"`
	Endpoints string `json:"endpoints,omitempty"`
	Lease     string `json:"lease,omitempty"`
	// Exceeded are the limits that prevented a pick, for each 429 and a sample of spills.
	Exceeded []schedule.Excess `json:"exceeded,omitempty"`
	// Prefill is the server that reads the prompt, and Encode lists the servers that encode images.
	// They are empty if the servers in Endpoints do this work. Missing are the stages without a
	// free server.
	Prefill string   `json:"prefill,omitempty"`
	Encode  string   `json:"encode,omitempty"`
	Missing []string `json:"missing,omitempty"`
	// OutOfRange lists a remote picker's addresses outside the declared ranges. Error is why the
	// remote picker did not answer.
	OutOfRange []string `json:"outOfRange,omitempty"`
	Error      string   `json:"error,omitempty"`
	// Request is x-request-id, and Picker names the process. Tokens may be an estimate by
	// content-length.
	Request string `json:"request,omitempty"`
	Gateway string `json:"gateway,omitempty"`
	Picker  string `json:"picker,omitempty"`
	Tokens  int    `json:"tokens,omitempty"`
	// Bytes is the size of the read body. Served is the model that replaced Model.
	Bytes  int    `json:"bytes,omitempty"`
	Served string `json:"served,omitempty"`
	// Stages are the stages that the request passed, in order. They are set only if Picks.Request
	// selects one request.
	Stages    []Passed   `json:"stages,omitempty"`
	Processor *Processed `json:"processor,omitempty"`
	// Waited is the time in flow control before the pick.
	Waited time.Duration `json:"waited,omitempty"`
	// Resumed is the time that the request waited for a server that was started for it.
	Resumed time.Duration `json:"resumed,omitempty"`
	// Candidates is the number of endpoints that passed the filters. Compared has the best 8, the
	// picked endpoints first.
	Candidates int      `json:"candidates,omitempty"`
	Compared   []Choice `json:"compared,omitempty"`
	// Lacks counts the servers that lack the model; may be nil.
	Lacks   *Lacks   `json:"lacks,omitempty"`
	Sent    *SentTo  `json:"sent,omitempty"`
	Outcome *Outcome `json:"outcome,omitempty"`
	// Verdicts are for a sample of picks. With more than 16 endpoints, Omitted counts the other
	// endpoints by the filter that removed them.
	Verdicts []schedule.Verdict `json:"verdicts,omitempty"`
	Omitted  map[string]int     `json:"omitted,omitempty"`
}

// Passed is a stage that a request passed.
type Passed struct {
	Stage   string        `json:"stage"`
	Took    time.Duration `json:"took"` // in stage read, the time until the body has arrived
	Decided string        `json:"decided,omitempty"`
}

const (
	// historySize bounds a pool's records, and maxRecords the records of all pools. A pool keeps at
	// least minHistory. A record with 16 verdicts takes about 10 KiB.
	historySize = 64
	minHistory  = 4
	maxRecords  = 1024
	// A pool records at most one pick with verdicts in each historyEvery. In a large pool this time
	// is historyPerEndpoint times the number of its endpoints.
	historyEvery       = 20 * time.Millisecond
	historyPerEndpoint = 200 * time.Microsecond
	maxVerdicts        = 16
)

type history struct {
	last atomic.Int64
	next atomic.Uint64
	size atomic.Int64 // number of kept records; 0 for a removed pool, whose notes still point to its history
	ring [historySize]atomic.Pointer[Record]
}

func historyOf(pools int) int64 {
	return int64(min(max(maxRecords/max(pools, 1), minHistory), historySize))
}

var start = time.Now()

func (h *history) resize(size int64) {
	h.size.Store(size)
	newest := h.next.Load()
	for i := size; i < historySize; i++ {
		h.ring[(newest-uint64(i))%historySize].Store(nil)
	}
}

// due reports whether to record a pick because the last record is old enough. Of concurrent picks,
// only one gets true.
func (h *history) due(now time.Time, endpoints int) bool {
	last, at := h.last.Load(), int64(now.Sub(start))
	return (last == 0 || at-last >= int64(max(historyEvery, time.Duration(endpoints)*historyPerEndpoint))) &&
		h.last.CompareAndSwap(last, at)
}

func (h *history) add(r *Record) {
	size := uint64(h.size.Load())
	if size == 0 {
		return
	}
	number := h.next.Add(1)
	h.ring[(number-size)%historySize].Store(nil)
	h.ring[number%historySize].Store(r)
}

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
