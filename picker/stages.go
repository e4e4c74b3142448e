package picker

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/flow"
	"github.com/penstock-project/penstock/picker/models"
	"github.com/penstock-project/penstock/picker/request"
	"github.com/penstock-project/penstock/picker/schedule"
)

// stage is a step of a pick. The comment of its function states what it reads, what it may change,
// and when it ends the pick.
type stage struct {
	name string
	at   moment
	run  func(*pick)
	// shown describes for a reader what the stage has done with a pick; "" for nothing. nil: it
	// decides nothing.
	shown  func(*Record) string
	always bool // it runs also for a pick that an earlier stage has ended
}

// moment is how much of a request has arrived when a stage runs.
type moment uint8

const (
	atCall    moment = iota // the metadata of the call: no message is read before
	atHeaders               // the headers
	atModel                 // a model that the body names; in STREAMED after the answer, with nothing else
	atRequest               // all that the pick needs
)

// stages are the stages of a pick, in their order. A request for the list of models, and one for an
// unknown pool, end in find.
//
// Restrict, rank, lease, spill and answer act by the pick's target: the model servers of a pool,
// those servers with sessions, the clusters of an import, a remote picker.
func stages() []stage {
	return []stage{
		{name: "admit", at: atCall, run: admit, shown: admitted},
		{name: "read", at: atHeaders, run: read, shown: readSoMuch},
		{name: "rewrite", at: atModel, run: rewrite, shown: rewritten},
		{name: "wake", at: atRequest, run: wake},
		{name: "find", at: atRequest, run: find, shown: found},
		{name: "recall", at: atRequest, run: recall, shown: recalled},
		{name: "hold", at: atRequest, run: hold, shown: held},
		{name: "process", at: atRequest, run: process, shown: processedBy},
		{name: "restrict", at: atRequest, run: restrict, shown: restrictedBy},
		{name: "prompt", at: atRequest, run: prompt, shown: prompted},
		{name: "score", at: atRequest, run: score},
		{name: "rank", at: atRequest, run: rank, shown: rankedBy},
		{name: "lease", at: atRequest, run: lease, shown: leased},
		{name: "spill", at: atRequest, run: spill, shown: spilled},
		{name: "answer", at: atRequest, run: answer, shown: answeredBy, always: true},
		{name: "note", at: atRequest, run: keepNote, always: true},
	}
}

// maxStages is how many stages a note has the times of, as bits of pick.passed and note.passed.
const maxStages = 32

// pick is one request on its way through the stages. One call of the gateway uses it, from its
// begin to its end.
type pick struct {
	picker  *Picker
	ctx     context.Context
	request *extproc.Request

	denied error          // by admit: the call ends
	over   bool           // a stage has ended it: only stages that always run follow
	answer extproc.Answer // that the gateway gets
	left   time.Time      // when the last stage was left
	last   int            // the last stage before the body
	took   [maxStages]float32
	passed uint32 // the stages that it has passed, as bits

	policy extproc.BodyPolicy // of read
	rules  *modelRules        // the same
	asked  string             // the model that the body names, for rewrite
	drawn  *request.Target    // by rewrite

	pool    *pool  // of find; a wait may replace it by the pool's newer configuration
	target  target // of find; nil if the pick ended there
	span    trace.Span
	started time.Time // of the time that metrics have: waits for others are not in it

	keeper  string // by recall: where the response is that the request names; "": not known
	follows follows

	queue     *flow.Queue // by hold: it has let the request through; nil if there was none
	waited    time.Duration
	processed processed

	spillTo    []string // by restrict, as the fields down to lease: all but this one of model servers
	restricted bool
	allowed    func(*endpoint.Endpoint) bool
	lacking    *models.Lacking // the servers that lack the model, while another one has it; nil: none is left out
	endpoints  []endpoint.Endpoint
	sampled    bool // the pick gets verdicts
	holder     endpoint.Holder
	query      schedule.Request // what strategies read of the request
	*working                    // the memory of restrict and what follows

	ids    []byte // of prompt: token IDs, as a JSON array
	shadow shadowed
	// the endpoints that the pool's processor has named; nil: the strategy decides
	byWorker func(*endpoint.Endpoint) bool
	strategy *schedule.Strategy // by which was ranked
	ranked   []schedule.Candidate
	at       time.Time // of the rank
	further  further
	staged   bool // the pool's profile handler has decided about further servers
	// Verdicts of a sampled pick are made after its rank and before its lease: they are what
	// decided.
	verdicts  []schedule.Verdict
	lacks     Lacks         // by the last choose
	endWaited time.Duration // for reports of ends, all waits together
	// requests in flight of all processes where this one would have been one too many; 0: nowhere
	contested int64
	lease     *endpoint.Lease
	unread    *endpoint.Unread // what the servers are sent; nil without a lease or a prompt

	clusters  []ClusterCost        // by rank, of an import
	stay      uint64               // the request's session there
	charge    *charged             // the same
	remote    extproc.RemoteAnswer // by rank, of a remote picker
	names     []string             // addresses that it named
	otherwise extproc.Answer       // if nothing takes the request

	// What records have beyond that.
	result     string
	held       flow.Outcome  // what flow control made of the request; Queued without flow control
	entered    time.Duration // that it took to decide that
	tokens     int           // of the prompt
	model      string
	candidates int
	compared   int // choices
	choices    [maxChoices]choice
	exceeded   []schedule.Excess // why the answer is 429
	outOfRange []string          // addresses that a remote picker named outside the declared ranges
	problem    string            // why it did not answer
	session    sessionBy
}

// working is the memory of a rank, which the next pick takes over.
type working struct {
	scratch schedule.Scratch
	others  schedule.Scratch // of a choice beside it: of further servers, or of those for retries
}

var (
	picks    = sync.Pool{New: func() any { return new(pick) }}
	workings = sync.Pool{New: func() any { return new(working) }}
)

var _ extproc.Picker = (*Picker)(nil)

// Begin implements extproc.Picker.
func (p *Picker) Begin(ctx context.Context, r *extproc.Request) (extproc.Pick, error) {
	k := p.begin(ctx, r)
	if k.pass(atCall); k.denied != nil {
		err := k.denied
		k.End()
		return nil, err
	}
	return k, nil
}

func (p *Picker) begin(ctx context.Context, r *extproc.Request) *pick {
	k := picks.Get().(*pick)
	k.picker, k.ctx, k.request = p, ctx, r
	return k
}

// Pick answers one request that is admitted and read: it passes the stages from then on.
func (p *Picker) Pick(ctx context.Context, r *extproc.Request) extproc.Answer {
	k := p.begin(ctx, r)
	defer k.End()
	return k.Answer()
}

// Body implements extproc.Pick.
func (k *pick) Body() extproc.BodyPolicy {
	k.pass(atHeaders)
	return k.policy
}

// Replacement implements extproc.Pick.
func (k *pick) Replacement(model string) *request.Target {
	k.asked, k.drawn = model, nil
	k.pass(atModel)
	return k.drawn
}

// Answer implements extproc.Pick.
func (k *pick) Answer() extproc.Answer {
	given := false
	defer func() { k.settle(given) }()
	k.pass(atRequest)
	given = true
	return k.answer
}

// End implements extproc.Pick.
func (k *pick) End() {
	*k = pick{}
	picks.Put(k)
}

// settle ends the use of what a pick has taken: its place in the queue, its memory, and, unless its
// answer was given to the gateway, all that counts its request. A stage may undo what it took
// itself; all that is left ends here alone.
func (k *pick) settle(given bool) {
	if k.queue != nil {
		k.queue.Placed() // it has a lease now, or is not sent
	}
	if !given {
		k.giveBack()
	}
	if k.shadow.working != nil {
		workings.Put(k.shadow.working)
	}
	if k.working != nil {
		workings.Put(k.working)
	}
	*k = pick{picker: k.picker, ctx: k.ctx, request: k.request, policy: k.policy, rules: k.rules}
}

// giveBack ends what counts a request that is not sent.
func (k *pick) giveBack() {
	k.further.release()
	if k.lease != nil {
		k.lease.Release()
	}
	switch {
	case k.answer.Track != nil:
		k.answer.Track.End()
	case k.lease != nil:
		k.lease.Done()
	case k.charge != nil:
		k.charge.End()
	case k.remote.Track != nil:
		k.remote.Track.End()
	}
}

// pass runs the stages of a moment. The time until the body has arrived counts for the stage that
// asks for it.
func (k *pick) pass(m moment) {
	now := time.Now()
	if m == atRequest && !k.left.IsZero() {
		k.took[k.last] += seconds(now.Sub(k.left))
	}
	for i := range k.picker.stages {
		s := &k.picker.stages[i]
		if s.at != m || k.over && !s.always {
			continue
		}
		s.run(k)
		left := time.Now()
		k.took[i] += seconds(left.Sub(now))
		k.passed |= 1 << i
		if now = left; m == atHeaders {
			k.left, k.last = left, i
		}
	}
}

func seconds(d time.Duration) float32 { return float32(d.Seconds()) }
