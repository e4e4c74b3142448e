package picker

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/penstock-project/penstock/picker/schedule"
)

// ResultSent is the result of a Record whose Sent is not nil.
const ResultSent = "sent"

// SentTo is a request that Envoy sent to an exporting cluster of an import. That cluster's picker
// chose the model server. Envoy chose the cluster in order, by weights, from a pick, or as a spill
// target.
type SentTo struct {
	// Declined means that no server of this cluster began the request. Envoy then sent it to the
	// next cluster or spill target.
	Declined bool `json:"declined,omitempty"`
	// Details is %RESPONSE_CODE_DETAILS% if this gateway's Envoy responded itself, else "".
	Details string `json:"details,omitempty"`
	// There is the request's ID in the other cluster; "" if unknown or equal to the ID here.
	There   string `json:"there,omitempty"`
	Spilled bool   `json:"spilled,omitempty"`
}

// Record is one pick, or, if Sent is set, a request sent to another cluster.
type Record struct {
	Time     time.Time `json:"time"`
	Pool     string    `json:"pool"`
	Strategy string    `json:"strategy"`
	// Choice is the type of the picker in the strategy "plugins", or "".
	Choice string `json:"choice,omitempty"`
	Model  string `json:"model,omitempty"` // "" if the pool reads no bodies
	// Criticality is "" if the pool does not use it.
	Criticality schedule.Criticality `json:"criticality,omitempty"`
	// Session describes how the strategy "session" found the request's session, or "".
	Session string `json:"session,omitempty"`
	// Follows describes whether the request went to the server with the stored response that the
	// request names; "" without such a response.
	Follows   string `json:"follows,omitempty"`
	Result    string `json:"result"` // "picked", "spilled", "relayed", or a Reason
	Status    int    `json:"status,omitempty"`
	Endpoints string `json:"endpoints,omitempty"`
	Lease     string `json:"lease,omitempty"`
	// Exceeded are the limits that prevented a pick, for each 429 and a sample of spilled requests.
	Exceeded []schedule.Excess `json:"exceeded,omitempty"`
	// Prefill is the server that reads the prompt, Encode the servers that encode images. If empty,
	// the servers in Endpoints do this work. Missing lists "prefill" and "encode" if no server for
	// the work was free.
	Prefill string   `json:"prefill,omitempty"`
	Encode  string   `json:"encode,omitempty"`
	Missing []string `json:"missing,omitempty"`
	// OutOfRange lists a remote picker's addresses outside the declared ranges. Error is why the
	// remote picker did not answer.
	OutOfRange []string `json:"outOfRange,omitempty"`
	Error      string   `json:"error,omitempty"`
	// Request is the x-request-id. Picker names the picker process. Tokens is the length of the
	// prompt, estimated from content-length if the picker did not read the body.
	Request string `json:"request,omitempty"`
	Gateway string `json:"gateway,omitempty"`
	Picker  string `json:"picker,omitempty"`
	Tokens  int    `json:"tokens,omitempty"`
	// Bytes is the size of the body, 0 if the picker did not read it. Served is the model that
	// replaced Model, or "".
	Bytes  int    `json:"bytes,omitempty"`
	Served string `json:"served,omitempty"`
	// Stages are the stages that the request passed. They are set only if Picks.Request selects one
	// request.
	Stages    []Passed   `json:"stages,omitempty"`
	Processor *Processed `json:"processor,omitempty"`
	// Waited is how long the request waited in flow control.
	Waited time.Duration `json:"waited,omitempty"`
	// Resumed is how long the request waited for a model server to start.
	Resumed time.Duration `json:"resumed,omitempty"`
	// Candidates counts the endpoints that passed the filters. Compared lists the best 8, the
	// picked endpoints first.
	Candidates int      `json:"candidates,omitempty"`
	Compared   []Choice `json:"compared,omitempty"`
	// Lacks counts the servers that lack the model, which the pick excluded; nil if none.
	Lacks   *Lacks   `json:"lacks,omitempty"`
	Sent    *SentTo  `json:"sent,omitempty"`
	Outcome *Outcome `json:"outcome,omitempty"`
	// Verdicts are set for a sample of picks. With more than 16 endpoints, Omitted counts the
	// others by the filter that removed them.
	Verdicts []schedule.Verdict `json:"verdicts,omitempty"`
	Omitted  map[string]int     `json:"omitted,omitempty"`
}

// Passed is a stage that a request passed.
type Passed struct {
	Stage   string        `json:"stage"`
	Took    time.Duration `json:"took"` // for the stage read, the time until the body had arrived
	Decided string        `json:"decided,omitempty"`
}

const (
	// historySize bounds a pool's records, and maxRecords the records of all pools. Each pool keeps
	// at least minHistory. A record with 16 verdicts takes about 10 KiB.
	historySize = 64
	minHistory  = 4
	maxRecords  = 1024
	// A pool records at most one pick with verdicts in the longer of historyEvery and
	// historyPerEndpoint times the number of its endpoints.
	historyEvery       = 20 * time.Millisecond
	historyPerEndpoint = 200 * time.Microsecond
	maxVerdicts        = 16
)

type history struct {
	last atomic.Int64
	next atomic.Uint64
	size atomic.Int64 // maximum number of records; 0 for a removed pool, although notes of its picks may follow
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

// due reports whether this pick is due for a record. Of several concurrent picks, only one gets
// true.
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
