package picker

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/schedule"
)

// Each pick writes a note into a ring buffer. A note lists the compared endpoints and, after the
// access log's report, the request's outcome. A sample of the picks also has verdicts (history.go).
const (
	// maxNotes bounds the notes of all pools: 12 MiB, or 80 s at 100 picks a second.
	maxNotes     = 8192
	notesAtFirst = 64
	maxChoices   = 8
	// A note has notedEndpoints fields for endpoints, enough for the three of a default pick.
	// Further endpoints are joined into one text.
	notedEndpoints = 4
	// maxNoted bounds the request ID and the model in a note, each in bytes.
	maxNoted = 64
)

type notes struct {
	mu   sync.Mutex
	ring []note
	next uint64 // number of the next note, from 1
}

type note struct {
	number             uint64
	at                 time.Time
	pool, strategy     string
	kind               string
	history            *history
	gateway            string
	result             string
	endpoints          [notedEndpoints]string
	further            string // endpoints after the first notedEndpoints, joined by commas
	prefill, encode    string
	lacks              []string
	exceeded           []schedule.Excess
	processed          Processed
	lease              uint64
	status             int
	waited, resumed    time.Duration
	tokens, candidates int
	idLength           uint8
	modelLength        uint8
	compared           uint8
	session            sessionBy
	follows            follows
	id, model          [maxNoted]byte
	choices            [maxChoices]choice
	took               [maxStages]float32 // in seconds
	passed             uint32             // passed stages, as bits
	bytes              int
	served             string
	outcome            Outcome
	without            Lacks
}

type choice struct {
	text                            string
	value                           float64
	cached                          int32
	by                              schedule.Measure
	trial                           bool
	speed                           bool
	drawn                           bool
	session                         bool
	reported                        bool
	rate                            float32
	wait, prompt, roundTrip, margin float32
	basis, barred                   string
}

// Choice is an endpoint or a cluster that a pick compared.
type Choice struct {
	Address string `json:"address"` // a cluster's name instead of an address
	// Cost is in seconds for the strategies load, LeastLoad and Latency, and in requests for
	// least-request. Score is for the strategy plugins.
	Cost   *float64 `json:"cost,omitempty"`
	Score  *float64 `json:"score,omitempty"`
	Cached int      `json:"cached,omitempty"`
	Trial  bool     `json:"trial,omitempty"` // the request tests a suspect endpoint or, with Speed, a slow one
	Speed  bool     `json:"speed,omitempty"` // the request measures the endpoint's speed
	Drawn  bool     `json:"drawn,omitempty"`
	// Rate is the endpoint's prefill rate in tokens a second, and RateFrom its source; zero if
	// unknown.
	Rate     float64             `json:"rate,omitempty"`
	RateFrom endpoint.RateSource `json:"rateFrom,omitempty"`
	// Wait to Basis are set for a cluster, as in ClusterCost.
	Wait      float64 `json:"wait,omitempty"`
	Prompt    float64 `json:"prompt,omitempty"`
	RoundTrip float64 `json:"roundTrip,omitempty"`
	Margin    float64 `json:"margin,omitempty"`
	Basis     string  `json:"basis,omitempty"`
	Barred    string  `json:"barred,omitempty"`
	Session   bool    `json:"session,omitempty"`
}

// Outcome is a request's outcome by its latest access log entry.
type Outcome struct {
	Ended  bool   `json:"ended"`
	Served string `json:"served,omitempty"`
	Status int    `json:"status,omitempty"`
	// Headers (of the response), Begun (first body byte) and Took (end) are times since the request
	// arrived at Envoy. For a gateway that Penstock does not configure, they are times since the
	// pick, and Begun may be 0.
	Headers  time.Duration `json:"headers,omitempty"`
	Begun    time.Duration `json:"firstByte,omitempty"`
	Took     time.Duration `json:"took,omitempty"`
	Canceled bool          `json:"canceled,omitempty"`
}

func (n *notes) add(k *pick) uint64 {
	pool, r, a := k.pool, k.request, &k.answer
	id, model := r.Headers.Header("x-request-id"), cmp.Or(r.Facts.Model, k.model)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.next++
	if size := len(n.ring); n.next > uint64(size) && size < maxNotes {
		n.grow(min(max(2*size, notesAtFirst), maxNotes))
	}
	to := &n.ring[n.next%uint64(len(n.ring))]
	to.number, to.at, to.gateway = n.next, k.started, r.Gateway
	// A pointer to the pool would keep old configurations in memory.
	to.pool, to.strategy, to.history = pool.Name, pool.strategyName(), pool.history
	to.kind = pool.choiceName()
	to.result, to.lease, to.status = k.result, a.Lease.Number, a.Status
	to.further = ""
	to.prefill, to.encode, to.lacks = k.further.text(stagePrefill), k.further.text(stageEncode), k.further.lacks
	to.exceeded = k.exceeded
	if clear(to.endpoints[copy(to.endpoints[:], a.Endpoints):]); len(a.Endpoints) > notedEndpoints {
		to.further = a.Endpoints[notedEndpoints:].String()
	}
	to.processed = k.processed.summary()
	to.tokens, to.candidates, to.waited = 0, k.candidates, k.waited
	to.resumed = k.resumed
	if pool.notesPrompt(r) {
		to.tokens = k.tokens
	}
	to.idLength, to.modelLength = uint8(copy(to.id[:], id)), uint8(copy(to.model[:], model))
	to.session, to.follows = k.session, k.follows
	to.compared = uint8(copy(to.choices[:], k.choices[:k.compared]))
	to.took, to.passed, to.bytes = k.took, k.passed, r.Facts.Size
	to.served = ""
	if target := r.Facts.Target; target != nil {
		to.served = target.Name
	}
	to.outcome, to.without = Outcome{}, k.lacks
	return n.next
}

func (pool *pool) notesPrompt(r *extproc.Request) bool {
	switch {
	case r.Bodyless:
		return false
	case r.Facts.Size > 0:
		return true
	case pool.Clusters != nil:
		return !pool.Clusters.Latency
	}
	return schedule.UsesPrefixes(&pool.options) || pool.options.ShedAfter > 0
}

func (n *notes) grow(size int) {
	ring := make([]note, size)
	for i := range n.ring {
		if old := &n.ring[i]; old.number > 0 {
			ring[old.number%uint64(size)] = *old
		}
	}
	n.ring = ring
}

func (n *notes) ended(number uint64, e accesslog.Entry, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if number == 0 || len(n.ring) == 0 {
		return
	}
	to := &n.ring[number%uint64(len(n.ring))]
	if to.number != number {
		return
	}
	to.outcome = Outcome{
		Ended: !e.Open, Served: e.Served, Status: e.Status, Headers: e.Headers, Begun: e.FirstByte,
		Canceled: e.Canceled,
	}
	if !e.Open {
		to.outcome.Took = cmp.Or(e.Took, now.Sub(to.at))
	}
}

// Picks selects records.
type Picks struct {
	Last int    `json:"last,omitempty"` // newest first; 0 means all
	Pool string `json:"pool,omitempty"` // as in Of; "" means all
	// Request selects the request with this x-request-id; "" means all.
	Request string `json:"request,omitempty"`
}

// Of reports whether q selects the picks of a pool. The pool "namespace/name" in q also selects the
// imports of that name: picks among their clusters ("namespace/name@") and picks for one cluster
// ("namespace/name@cluster").
func (q Picks) Of(pool string) bool {
	rest, ok := strings.CutPrefix(pool, q.Pool)
	return ok && (q.Pool == "" || rest == "" || rest[0] == '@' || strings.HasSuffix(q.Pool, "@"))
}

const maxPicks = 1000

// Picks returns the selected picks of this process, newest first.
func (p *Picker) Picks(q Picks) []*Record {
	limit := maxPicks
	if q.Last > 0 {
		limit = min(limit, q.Last)
	}
	records := []*Record{}
	for _, n := range p.records.notes.find(q, limit) {
		records = append(records, n.record(p.leases.Owner(), q.Request != ""))
	}
	return records
}

func (n *notes) find(q Picks, limit int) (found []note) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for back := uint64(0); back < uint64(len(n.ring)) && back < n.next && len(found) < limit; back++ {
		at := &n.ring[(n.next-back)%uint64(len(n.ring))]
		if at.number == 0 || !q.Of(at.pool) || q.Request != "" &&
			string(at.id[:at.idLength]) != q.Request[:min(len(q.Request), maxNoted)] {
			continue
		}
		found = append(found, *at)
	}
	return found
}

func (n *note) record(by string, stages bool) *Record {
	r := &Record{}
	lease := ""
	if n.lease > 0 {
		lease = extproc.Lease{Owner: by, Number: n.lease}.String()
	}
	for _, sampled := range n.history.list() {
		if sampled.Time.Equal(n.at) && sampled.Lease == lease {
			*r = *sampled
		}
	}
	r.Time, r.Pool, r.Strategy, r.Choice, r.Model = n.at, n.pool, n.strategy, n.kind, string(n.model[:n.modelLength])
	r.Result, r.Status, r.Endpoints, r.Lease = n.result, n.status, n.list(), lease
	r.Resumed = n.resumed
	r.Waited, r.Prefill, r.Encode, r.Missing, r.Exceeded = n.waited, n.prefill, n.encode, n.lacks, n.exceeded
	r.Session, r.Follows = n.session.String(), n.follows.String()
	r.Request, r.Gateway, r.Tokens, r.Candidates, r.Picker = string(n.id[:n.idLength]), n.gateway, n.tokens,
		n.candidates, by
	r.Bytes, r.Served = n.bytes, n.served
	if n.processed.Outcome != "" {
		processed := n.processed
		r.Processor = &processed
	}
	for _, c := range n.choices[:n.compared] {
		r.Compared = append(r.Compared, c.shown())
	}
	if n.lease > 0 {
		outcome := n.outcome
		r.Outcome = &outcome
	}
	if n.without != (Lacks{}) {
		without := n.without
		r.Lacks = &without
	}
	if stages {
		r.Stages = n.stages(r)
	}
	return r
}

func (n *note) stages(r *Record) (out []Passed) {
	for i, s := range stages() {
		if n.passed&(1<<i) == 0 {
			continue
		}
		p := Passed{Stage: s.name, Took: time.Duration(float64(n.took[i]) * float64(time.Second))}
		if s.shown != nil {
			p.Decided = s.shown(r)
		}
		out = append(out, p)
	}
	return out
}

func (c choice) shown() Choice {
	out := Choice{Address: c.text, Cached: int(c.cached), Trial: c.trial, Speed: c.speed, Drawn: c.drawn,
		Wait: float64(c.wait), Prompt: float64(c.prompt), RoundTrip: float64(c.roundTrip), Margin: float64(c.margin),
		Basis: c.basis, Barred: c.barred, Session: c.session}
	if out.Rate = float64(c.rate); c.rate > 0 {
		out.RateFrom = endpoint.Inferred
	}
	if c.reported {
		out.RateFrom = endpoint.Reported
	}
	switch c.by {
	case schedule.ByCost:
		out.Cost = &c.value
	case schedule.ByScore:
		out.Score = &c.value
	}
	return out
}

func (n *note) list() string {
	l := make(extproc.List, 0, notedEndpoints+1)
	for _, text := range append(n.endpoints[:], n.further) {
		if text != "" {
			l = append(l, text)
		}
	}
	return l.String()
}

func (k *pick) compare(ranked int, all []schedule.Candidate, by schedule.Measure) {
	k.candidates, k.compared = len(all), 0
	for i := range all {
		c := &all[i]
		next := choice{text: c.Endpoint.Text, value: c.Cost, cached: int32(c.Cached), by: by, trial: c.Trial,
			speed: c.Relearn, drawn: c.Drawn}
		if by == schedule.ByScore {
			next.value = c.Score
		}
		if c.RateFrom != "" {
			next.rate, next.reported = float32(c.Rate), c.RateFrom == endpoint.Reported
		}
		at := k.compared
		if i >= ranked {
			for at > ranked && next.before(&k.choices[at-1]) {
				at--
			}
		}
		if at >= maxChoices {
			continue
		}
		last := min(k.compared, maxChoices-1)
		copy(k.choices[at+1:last+1], k.choices[at:last])
		k.choices[at] = next
		k.compared = last + 1
	}
}

func (c *choice) before(other *choice) bool {
	if c.drawn != other.drawn {
		return c.drawn
	}
	if c.by == schedule.ByScore {
		return c.value > other.value
	}
	return c.value < other.value
}

func costOf(v *schedule.Verdict) float64 {
	if v.Cost == nil {
		return 0
	}
	return *v.Cost
}

// trim reduces verdicts to maxVerdicts: on a pick's endpoints, the best other endpoints, and a few
// excluded ones. rest counts the omitted verdicts by the filter that removed the endpoint, or as
// candidates.
func trim(verdicts []schedule.Verdict, named string) (kept []schedule.Verdict, rest map[string]int) {
	if len(verdicts) <= maxVerdicts {
		return verdicts, nil
	}
	first, _, _ := strings.Cut(named, ",")
	order := make([]int, len(verdicts))
	for i := range order {
		order[i] = i
	}
	rank := func(v *schedule.Verdict) int {
		switch {
		case v.Address == first:
			return 0
		case v.Out == "":
			return 1
		}
		return 2
	}
	slices.SortStableFunc(order, func(a, b int) int {
		va, vb := &verdicts[a], &verdicts[b]
		return cmp.Or(cmp.Compare(rank(va), rank(vb)), cmp.Compare(costOf(va), costOf(vb)),
			cmp.Compare(vb.Score, va.Score), cmp.Compare(va.State.InFlight, vb.State.InFlight))
	})
	rest = map[string]int{}
	for _, i := range order[maxVerdicts:] {
		rest[cmp.Or(verdicts[i].Out, "candidate")]++
	}
	kept = make([]schedule.Verdict, 0, maxVerdicts)
	order = order[:maxVerdicts]
	slices.Sort(order)
	for _, i := range order {
		kept = append(kept, verdicts[i])
	}
	return kept, rest
}
