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

// stage is a step of a pick. The comment of the function in run states what the stage may change,
// and when it ends the pick.
type stage struct {
	name string
	at   moment
	run  func(*pick)
	// shown describes the stage's effect on a pick to users, or returns ""; nil for no effect.
	shown  func(*Record) string
	always bool // runs even if a stage has ended the pick
}

type moment uint8

const (
	atCall moment = iota // with the call's metadata, before any message
	atHeaders
	// The model in the body is known. In the body mode STREAMED, where the pick precedes the body,
	// atModel comes after the pick.
	atModel
	atRequest // with all parts of the request that the pick needs
)

func stages() []stage {
	return []stage{
		{name: "admit", at: atCall, run: admit, shown: admitted},
		{name: "read", at: atHeaders, run: read, shown: readSoMuch},
		{name: "rewrite", at: atModel, run: rewrite, shown: rewritten},
		{name: "wake", at: atRequest, run: wake},
		{name: "find", at: atRequest, run: find, shown: found},
		{name: "resume", at: atRequest, run: resume, shown: resumed},
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

// pick.passed and note.passed have room for maxStages stages.
const maxStages = 32

type pick struct {
	picker  *Picker
	ctx     context.Context
	request *extproc.Request

	progress
	bodyRules
	destination
	waits
	keeper    string // set by recall: server or hop with the named response, or ""
	follows   follows
	processed processed
	choosing
	ranking
	imported
	account
}

// progress is how far the stages have come.
type progress struct {
	denied error
	over   bool // a stage ended the pick: only stages with always still run
	answer extproc.Answer
	left   time.Time
	last   int
	took   [maxStages]float32
	passed uint32
}

// bodyRules are set by read and rewrite.
type bodyRules struct {
	policy extproc.BodyPolicy
	rules  *modelRules
	asked  string // the body's model, read by rewrite
	drawn  *request.Target
}

// destination is set by find.
type destination struct {
	pool    *pool  // a wait may replace it by newer configuration
	target  target // nil if find ended the pick
	span    trace.Span
	started time.Time // when the measured time starts, after waits
	use     *use      // nil without own model servers
}

// waits are set by resume and hold.
type waits struct {
	resumed time.Duration
	queue   *flow.Queue // may be nil
	waited  time.Duration
	entered time.Duration
	held    flow.Outcome
}

// choosing is the input of a choice, set by restrict.
type choosing struct {
	spillTo    []string
	restricted bool
	allowed    func(*endpoint.Endpoint) bool
	lacking    *models.Lacking // servers that lack the model while others have it; may be nil
	endpoints  []endpoint.Endpoint
	sampled    bool
	holder     endpoint.Holder
	query      schedule.Request
	*working   // memory of restrict and later stages
}

// ranking is set by prompt, rank and lease.
type ranking struct {
	ids      []byte // token IDs, as a JSON array
	shadow   shadowed
	byWorker func(*endpoint.Endpoint) bool
	strategy *schedule.Strategy
	ranked   []schedule.Candidate
	at       time.Time
	further  further
	staged   bool // the profile handler of the pool has decided about further servers
	// verdicts of a sampled pick describe the state between rank and lease.
	verdicts  []schedule.Verdict
	lacks     Lacks // as counted by the last choose
	endWaited time.Duration
	// contested is the number of all processes' requests in flight at the endpoint where this pick
	// exceeded the limit, or 0.
	contested int64
	lease     *endpoint.Lease
	unread    *endpoint.Unread // nil without a lease or a prompt
}

// imported is for requests to an import.
type imported struct {
	clusters  []ClusterCost
	stay      uint64 // the request's session at the import
	charge    *charged
	remote    extproc.RemoteAnswer
	names     []string
	otherwise extproc.Answer // answer if no destination accepts the request
}

// account has the facts that note records.
type account struct {
	result     string
	tokens     int
	model      string
	candidates int
	compared   int
	choices    [maxChoices]choice
	exceeded   []schedule.Excess
	outOfRange []string
	problem    string
	session    sessionBy
}

type working struct {
	scratch schedule.Scratch
	others  schedule.Scratch // for a second choice in the same pick: further servers, or retries
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

// Pick runs only the stages of the moment atRequest, for an already admitted request.
func (p *Picker) Pick(ctx context.Context, r *extproc.Request) extproc.Answer {
	k := p.begin(ctx, r)
	defer k.End()
	return k.Answer()
}

func (k *pick) Body() extproc.BodyPolicy {
	k.pass(atHeaders)
	return k.policy
}

func (k *pick) Replacement(model string) *request.Target {
	k.asked, k.drawn = model, nil
	k.pass(atModel)
	return k.drawn
}

func (k *pick) Answer() extproc.Answer {
	given := false
	defer func() { k.settle(given) }()
	k.pass(atRequest)
	given = true
	return k.answer
}

func (k *pick) End() {
	*k = pick{}
	picks.Put(k)
}

// settle removes a pick from the flow control queue and from its pool's use, and frees its working
// memory. If the gateway did not get the answer, settle also ends the pick's lease, Charge or
// tracker. A stage releases only what it acquired itself.
func (k *pick) settle(given bool) {
	if k.queue != nil {
		k.queue.Placed() // the request has a lease now, or will not be sent
	}
	if k.use != nil {
		defer k.use.picking.Add(-1)
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
	*k = pick{picker: k.picker, ctx: k.ctx, request: k.request,
		bodyRules: bodyRules{policy: k.policy, rules: k.rules}}
}

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

// pass runs the stages of a moment and measures their times. The wait for the body counts for the
// last stage before.
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
