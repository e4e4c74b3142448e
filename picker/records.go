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

// Every pick is noted in a ring of fixed size, with what the picker compared, and its outcome once
// the access log reports it. A note is written in place and allocates nothing: on a pool of a
// thousand endpoints it has the best of them. Verdicts with all their parts are made for a sample
// of the picks (history.go).
const (
	// maxNotes is how many picks of all pools are known: at 100 a second those of the last 80 s.
	// They take 12 MiB at most.
	maxNotes = 8192
	// notesAtFirst is the size of the ring at first. It doubles.
	notesAtFirst = 64
	// maxChoices is how many endpoints a note has.
	maxChoices = 8
	// notedEndpoints is how many endpoints of a pick a note has without copying them: by default a
	// pick names three.
	notedEndpoints = 4
	// maxNoted bounds a request's ID and its model in a note, in bytes.
	maxNoted = 64
)

// notes are the last picks of all pools.
type notes struct {
	mu   sync.Mutex
	ring []note
	next uint64 // number of the next note, from 1 on
}

// note is one pick.
type note struct {
	number             uint64
	at                 time.Time
	pool, strategy     string
	kind               string // schedule.Strategy.Choice
	history            *history
	gateway            string
	result             string
	endpoints          [notedEndpoints]string // of the list that was sent, the first ones
	further            string                 // the others
	prefill, encode    string                 // addresses of further servers
	lacks              []string               // stages
	exceeded           []schedule.Excess      // limits
	processed          Processed
	lease              uint64
	status             int
	waited             time.Duration
	tokens, candidates int
	idLength           uint8
	modelLength        uint8
	compared           uint8
	session            sessionBy
	follows            follows
	id, model          [maxNoted]byte
	choices            [maxChoices]choice
	took               [maxStages]float32 // of each stage, in seconds
	passed             uint32             // the stages, as bits
	bytes              int                // of the body
	served             string             // the model that the server gets; "": the request's
	outcome            Outcome
	without            Lacks // of the model
}

// choice is an endpoint that a pick compared.
type choice struct {
	text   string
	value  float64 // cost or score
	cached int32
	by     schedule.Measure
	trial  bool
	speed  bool
	drawn  bool
	// The request's session is there, as ClusterCost has it.
	session  bool
	reported bool    // the server's own series show its rate
	rate     float32 // schedule.Candidate.Rate, if it is known
	// Of a cluster, as ClusterCost has them.
	wait, prompt, roundTrip, margin float32
	basis, barred                   string
}

// Choice is an endpoint, or a cluster, that a pick compared, by what decided at that moment.
type Choice struct {
	Address string `json:"address"` // of a cluster its name
	// Cost in seconds for strategies load, LeastLoad and Latency, and in requests for
	// least-request. Score is that of strategy plugins. Other strategies compare by no number, and
	// have neither.
	Cost   *float64 `json:"cost,omitempty"`
	Score  *float64 `json:"score,omitempty"`
	Cached int      `json:"cached,omitempty"`
	Trial  bool     `json:"trial,omitempty"` // suspect, or Speed: the request shows whether it works
	Speed  bool     `json:"speed,omitempty"` // what was learned of its speed was old, and the request shows it again
	Drawn  bool     `json:"drawn,omitempty"` // one of the two that power-of-two-picker drew, of which it chose one
	// Rate at which the server read prompts, in tokens a second, and how it was known; 0 and "": it
	// was not.
	Rate     float64             `json:"rate,omitempty"`
	RateFrom endpoint.RateSource `json:"rateFrom,omitempty"`
	// Of a cluster: the parts of its cost, by what the wait is known, and why the cluster comes
	// last (ClusterCost).
	Wait      float64 `json:"wait,omitempty"`
	Prompt    float64 `json:"prompt,omitempty"`
	RoundTrip float64 `json:"roundTrip,omitempty"`
	Margin    float64 `json:"margin,omitempty"`
	Basis     string  `json:"basis,omitempty"`
	Barred    string  `json:"barred,omitempty"`
	Session   bool    `json:"session,omitempty"` // the request's session was there
}

// Outcome is what became of a request, by the last entry of the access log.
type Outcome struct {
	Ended  bool   `json:"ended"` // false: it is in flight
	Served string `json:"served,omitempty"`
	Status int    `json:"status,omitempty"`
	// Headers is the time to the response's headers, Begun to the first byte of its body, and Took
	// to its end, from the request's arrival at Envoy. For a gateway that Penstock does not
	// configure they count from the pick, and Begun is 0 unless the gateway sends the body here as
	// it arrives.
	Headers  time.Duration `json:"headers,omitempty"`
	Begun    time.Duration `json:"firstByte,omitempty"`
	Took     time.Duration `json:"took,omitempty"`
	Canceled bool          `json:"canceled,omitempty"`
}

// add notes a pick, and returns its number.
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
	// the pool itself may be replaced often
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

// notesPrompt reports whether a note has the length of a request's prompt: if the body was read, or
// if the pool decides by what its content-length shows.
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

// grow replaces the ring. Numbers keep their notes.
func (n *notes) grow(size int) {
	ring := make([]note, size)
	for i := range n.ring {
		if old := &n.ring[i]; old.number > 0 {
			ring[old.number%uint64(size)] = *old
		}
	}
	n.ring = ring
}

// ended notes the outcome of a pick, if it is in the ring still.
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
	Last int    `json:"last,omitempty"` // how many at most, the newest first; 0: all
	Pool string `json:"pool,omitempty"` // only of this one, as Of has it
	// only for the request with this ID (x-request-id), of which there are several if it was
	// spilled
	Request string `json:"request,omitempty"`
}

// Of reports whether picks of a pool are selected. "namespace/name" selects those of the imports of
// that name, too: the choices among their clusters, and picks for one of them ("namespace/name@",
// "namespace/name@cluster").
func (q Picks) Of(pool string) bool {
	rest, ok := strings.CutPrefix(pool, q.Pool)
	return ok && (q.Pool == "" || rest == "" || rest[0] == '@' || strings.HasSuffix(q.Pool, "@"))
}

// maxPicks is how many records one call of Picks returns at most.
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

// find returns copies of up to limit notes, the newest first.
func (n *notes) find(q Picks, limit int) (found []note) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for back := uint64(0); back < uint64(len(n.ring)) && back < n.next && len(found) < limit; back++ {
		of := &n.ring[(n.next-back)%uint64(len(n.ring))]
		if of.number == 0 || !q.Of(of.pool) || q.Request != "" &&
			string(of.id[:of.idLength]) != q.Request[:min(len(q.Request), maxNoted)] {
			continue
		}
		found = append(found, *of)
	}
	return found
}

// record is the note for a reader. If verdicts were made for the pick, it has them. Stages are for
// the readers of one request.
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

// stages describes those that a pick has passed. n.took has them by their places.
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

// shown is the choice for a reader.
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

// list returns the endpoints of the pick as they were sent.
func (n *note) list() string {
	l := make(extproc.List, 0, notedEndpoints+1)
	for _, text := range append(n.endpoints[:], n.further) {
		if text != "" {
			l = append(l, text)
		}
	}
	return l.String()
}

// compare keeps the best candidates of a pick: those that it names, and then the least costs or the
// highest scores.
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

// before reports whether a choice is better than another one of its pick, or was drawn in place of
// it.
func (c *choice) before(other *choice) bool {
	if c.drawn != other.drawn {
		return c.drawn
	}
	if c.by == schedule.ByScore {
		return c.value > other.value
	}
	return c.value < other.value
}

// costOf returns the cost of a verdict, 0 without one.
func costOf(v *schedule.Verdict) float64 {
	if v.Cost == nil {
		return 0
	}
	return *v.Cost
}

// trim leaves the verdicts that explain a pick: those on the endpoints that it names, the least
// costs, the highest scores or the fewest requests in flight, and a few of those that were out. It
// returns how many it leaves out, by the filter that removed them; the others are candidates.
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
