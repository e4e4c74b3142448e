package picker

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/schedule"
)

// Record is one pick, for /debug/picks and penstock explain.
type Record struct {
	Time     time.Time `json:"time"`
	Pool     string    `json:"pool"`
	Strategy string    `json:"strategy"`
	Model    string    `json:"model,omitempty"` // if the pool reads bodies
	// Criticality of the request, if the strategy reads it.
	Criticality schedule.Criticality `json:"criticality,omitempty"`
	Result      string               `json:"result"` // "picked", "spilled", "relayed", or a Reason
	Status      int                  `json:"status,omitempty"`
	Endpoints   string               `json:"endpoints,omitempty"` // as sent to Envoy
	Lease       string               `json:"lease,omitempty"`
	// OutOfRange lists addresses that a remote picker named outside the declared ranges; Error is why it did not answer.
	OutOfRange []string `json:"outOfRange,omitempty"`
	Error      string   `json:"error,omitempty"`
	// Verdicts on every endpoint, computed after the pick: the request counts as in flight at the chosen endpoint.
	Verdicts []schedule.Verdict `json:"verdicts,omitempty"`
}

const (
	historySize = 64
	// historyEvery bounds the cost of records: at most one pick of a pool is recorded in this time.
	historyEvery = 20 * time.Millisecond
)

// history keeps a pool's last recorded picks.
type history struct {
	last atomic.Int64 // when the last record was made, in nanoseconds since start
	next atomic.Uint64
	ring [historySize]atomic.Pointer[Record]
}

// start is the zero of times kept in atomics. Differences to it are monotonic: the clock may be set meanwhile.
var start = time.Now()

func newHistory() *history { return new(history) }

// offer records a pick unless another one was recorded a moment ago; make is called only if so.
func (h *history) offer(now time.Time, make func() *Record) {
	last, at := h.last.Load(), int64(now.Sub(start))
	if last != 0 && at-last < int64(historyEvery) || !h.last.CompareAndSwap(last, at) {
		return
	}
	h.ring[h.next.Add(1)%historySize].Store(make())
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

func (pool *pool) record(r *extproc.Request, a *extproc.Answer, d *decision, at time.Time) *Record {
	request := pool.scheduled(r, at)
	record := &Record{
		Time: at, Pool: pool.Name, Strategy: pool.strategy.Name(), Model: request.Model,
		Result: d.result, Status: a.Status, Endpoints: a.Endpoints, Lease: a.Lease,
		OutOfRange: d.outOfRange, Error: d.problem,
		Verdicts: pool.strategy.Describe(&request, at, pool.snapshot.Endpoints, d.allowed),
	}
	if schedule.UsesCriticality(&pool.options) || request.Objective != (schedule.Objective{}) {
		record.Criticality = cmp.Or(pool.Criticality, schedule.Standard)
	}
	return record
}
