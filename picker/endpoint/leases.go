package endpoint

import (
	"context"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/recording"
)

const leaseShards = 64

const (
	// maxID bounds the ID of an adopted lease from another process, in bytes.
	maxID = 64
	// A lease can expire although its request continues, for example if its Envoy had no CPU for
	// seconds. A report within resumable after the expiry resumes the lease. maxExpired bounds the
	// resumable leases.
	resumable  = time.Minute
	maxExpired = 1 << 16
	// MaxOpen bounds a Gateway's open leases: a client with its key could open any number.
	MaxOpen = 1 << 16
)

// Leases are the open leases of one picker process.
type Leases struct {
	owner   string
	timeout time.Duration
	next    atomic.Uint64
	open    atomic.Int64
	first   chan struct{}
	shards  [leaseShards]shard

	mu      sync.Mutex
	adopted map[string]*Lease
	expired map[uint64]expired
	forget  []forget // expired leases, oldest first; some may have been resumed
	ledgers sync.Map
}

// Holder names the Gateway and the pool of a lease. Other Gateways cannot change the lease.
type Holder struct {
	Gateway string // "" if picker calls need no key
	Pool    string
}

type ledger struct{ open atomic.Int64 }

type expired struct {
	holder Holder
	at     time.Duration // since processStart
}

type forget struct {
	id uint64
	at time.Duration // since processStart
}

type shard struct {
	mu   sync.Mutex
	open map[uint64]*Lease
	due  agenda
}

// Lease is a request in flight at an endpoint. Open, Find, Resume and Adopt return a lease that the
// caller may use until Done. After Release and the last Done, the memory is reused.
type Lease struct {
	// uses counts references: one for the table until Release, and one for each user until Done.
	uses    atomic.Int32
	id      uint64
	adopted string // the lease's ID if another process opened it, else ""
	holder  Holder
	ledger  *ledger
	leases  *Leases
	picked  *Load
	work    Work
	reached int64        // when the request was sent or its first byte arrived, in ns since processStart
	renewed atomic.Int64 // in ns since processStart; untilEnd if the lease never expires

	mu     sync.Mutex
	load   *Load // nil after Release
	prompt promptState
	begun  bool          // the first token, or an early event, was seen
	first  time.Duration // time to an early event, until it is used; else 0
	ahead  int64
	trial  bool
	tag    Tag
	parts  []*Lease // leases of this request at other servers, until the first token
	onEnd  func()
	front  *Load // address that forwards requests to the picked endpoint; may be nil
	sent   int64
	shown  int64 // last report, since processStart
	bytes  int64 // of the response at the last report
	plain  bool

	headersLimit time.Duration
	frozen       bool
}

const untilEnd = math.MinInt64

// NewLeases returns an empty Leases. owner names this process in lease IDs, without a dot. A lease
// expires timeout after its last renewal.
func NewLeases(owner string, timeout time.Duration) *Leases {
	l := &Leases{owner: owner, timeout: timeout, first: make(chan struct{}, 1), adopted: map[string]*Lease{},
		expired: map[uint64]expired{}}
	for i := range l.shards {
		l.shards[i].open, l.shards[i].due = map[uint64]*Lease{}, agenda{tick: l.tick(), last: math.MinInt64}
	}
	return l
}

// Owner returns the name of this process in lease IDs.
func (l *Leases) Owner() string { return l.owner }

func (l *Leases) ledger(gateway string) *ledger {
	found, ok := l.ledgers.Load(gateway)
	if !ok {
		found, _ = l.ledgers.LoadOrStore(gateway, &ledger{})
	}
	return found.(*ledger)
}

// Bounded reports whether a Gateway has MaxOpen leases, and so may open no more.
func (l *Leases) Bounded(gateway string) bool { return l.ledger(gateway).open.Load() >= MaxOpen }

// Open opens a lease for a request with work w at e. It returns nil if limit requests are in flight
// at e (0 means no limit), or if w is a trial and e already has one.
func (l *Leases) Open(e *Endpoint, h Holder, w Work, limit int64, now time.Time) *Lease {
	if w.Trial && !e.load.health.trial.CompareAndSwap(false, true) {
		return nil
	}
	if !e.load.start(limit) {
		if w.Trial {
			e.load.health.trial.Store(false)
		}
		return nil
	}
	e.load.follow(e.load.sent.Add(1))
	lease := unused.Get().(*Lease)
	lease.id, lease.leases, lease.picked, lease.holder, lease.work, lease.trial = l.next.Add(1), l, e.load, h, w,
		w.Trial
	lease.reached = sinceStart(now)
	lease.sent, lease.plain = lease.reached, w.Generates && !w.Stream
	e.load.motion.sentTo(w.Trial, lease.sent)
	if lease.plain {
		e.load.motion.plain.Add(1)
	}
	if w.Relearn {
		e.load.learner().lesson.Store(lease.reached)
	}
	lease.beginPrompt(e.load, now)
	if w.Adapter != 0 {
		e.load.adapters.add(w.Adapter, w.Slots)
	}
	return l.insert(lease, e.load, now)
}

func (l *Leases) insert(lease *Lease, at *Load, now time.Time) *Lease {
	lease.uses.Store(2)
	lease.load = at
	lease.Renew(now)
	l.added(lease)
	shard := &l.shards[lease.id%leaseShards]
	shard.mu.Lock()
	shard.open[lease.id] = lease
	shard.due.add(lease.id, time.Duration(sinceStart(now))+l.timeout)
	shard.mu.Unlock()
	return lease
}

// OpenAt opens a lease for a request that this process did not pick. Release calls onEnd, which
// must not block.
func (l *Leases) OpenAt(at *Load, h Holder, onEnd func(), now time.Time) *Lease {
	at.start(0)
	return l.insert(&Lease{id: l.next.Add(1), leases: l, holder: h, onEnd: onEnd}, at, now)
}

// Resume reopens an expired lease that this process issued to gateway, or returns nil. at returns
// the Load of the serving address for the lease's pool; nil if unknown.
func (l *Leases) Resume(id, gateway string, at func(pool string) *Load, now time.Time) *Lease {
	number, ok := l.number(id)
	if !ok {
		return nil
	}
	l.mu.Lock()
	old, ok := l.expired[number]
	l.mu.Unlock()
	if !ok || old.holder.Gateway != gateway || l.Bounded(gateway) {
		return nil
	}
	load := at(old.holder.Pool)
	if load == nil {
		return nil
	}
	l.mu.Lock()
	_, ok = l.expired[number] // a concurrent report may have resumed the lease
	delete(l.expired, number)
	l.mu.Unlock()
	if !ok {
		return nil
	}
	load.start(0)
	return l.insert(&Lease{id: number, leases: l, holder: old.holder}, load, now)
}

// Adopt opens a lease for a request of a process that has ended, or returns the existing lease with
// the ID. It returns nil if the ID is invalid or the Gateway has MaxOpen leases.
func (l *Leases) Adopt(id string, h Holder, at *Load, now time.Time) *Lease {
	if Owner(id) == "" || len(id) > maxID || l.Bounded(h.Gateway) {
		return nil
	}
	l.mu.Lock()
	lease := l.adopted[id]
	if lease == nil {
		lease = &Lease{adopted: strings.Clone(id), leases: l, holder: h, load: at}
		lease.uses.Store(1)
		at.start(0)
		l.added(lease)
		l.adopted[lease.adopted] = lease
	}
	lease.uses.Add(1)
	l.mu.Unlock()
	lease.Renew(now)
	return lease
}

func (l *Leases) added(lease *Lease) {
	lease.ledger = l.ledger(lease.holder.Gateway)
	lease.ledger.open.Add(1)
	if l.open.Add(1) == 1 {
		notify(l.first)
	}
}

var unused = sync.Pool{New: func() any { return new(Lease) }}

// Done ends the caller's use of a lease.
func (lease *Lease) Done() {
	if lease.uses.Add(-1) > 0 {
		return
	}
	lease.id, lease.adopted, lease.holder, lease.ledger, lease.leases, lease.picked, lease.work = 0, "", Holder{}, nil,
		nil, nil, Work{}
	lease.renewed.Store(0)
	lease.load, lease.prompt, lease.begun, lease.ahead, lease.trial, lease.tag = nil, promptRead, false, 0, false, Tag{}
	lease.front, lease.sent, lease.shown, lease.bytes, lease.plain = nil, 0, 0, 0, false
	lease.headersLimit, lease.frozen = 0, false
	unused.Put(lease)
}

// Number identifies the lease within this process; 0 for an adopted lease.
func (lease *Lease) Number() uint64 { return lease.id }

// ID returns the lease's ID, as in access logs.
func (lease *Lease) ID() string {
	if lease.adopted != "" {
		return lease.adopted
	}
	return lease.leases.owner + "." + strconv.FormatUint(lease.id, 36)
}

// Owner returns the process that a lease ID names; "" for an invalid ID.
func Owner(id string) string {
	owner, number, _ := strings.Cut(id, ".")
	if number == "" {
		return ""
	}
	return owner
}

// Owns reports whether this process issued an ID.
func (l *Leases) Owns(id string) bool { return Owner(id) == l.owner }

func (l *Leases) number(id string) (uint64, bool) {
	if !l.Owns(id) {
		return 0, false
	}
	n, err := strconv.ParseUint(id[len(l.owner)+1:], 36, 64)
	return n, err == nil
}

// Find returns the open or adopted lease with this ID, or nil.
func (l *Leases) Find(id string) *Lease {
	if !l.Owns(id) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.adopted[id].use()
	}
	number, ok := l.number(id)
	if !ok {
		return nil
	}
	shard := &l.shards[number%leaseShards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	return shard.open[number].use()
}

// use adds a reference. The caller holds the lock of the table that has the lease.
func (lease *Lease) use() *Lease {
	if lease != nil {
		lease.uses.Add(1)
	}
	return lease
}

// Renew restarts the lease's timeout at now.
func (lease *Lease) Renew(now time.Time) {
	if lease.renewed.Load() != untilEnd {
		lease.renewed.Store(sinceStart(now))
	}
}

// KeepUntilEnd disables the lease's timeout: only Release ends the lease.
func (lease *Lease) KeepUntilEnd() { lease.renewed.Store(untilEnd) }

// Holder returns the Gateway and the pool of the lease.
func (lease *Lease) Holder() Holder { return lease.holder }

// Tag is data about a lease's request.
type Tag struct {
	Number         uint64 // the request's number; 0 for none
	Model          string // the model that the request names; "" if unknown
	Asks           string // the model sent to the server if a 404 may mean that the server lacks it, else ""
	Early          bool   // the response's first byte is not its first token
	Tokens, Cached int    // tokens of the prompt, and its cached tokens
	// Line is the request's line in the recording, or nil.
	Line *recording.Line
	// Charge is the request's charge at a cluster of an import, or nil.
	Charge Charge
	// Unread is the request's prompt until TakeUnread, or nil.
	Unread *Unread
}

// Charge receives the access log entries of its request.
type Charge interface{ Follow(accesslog.Entry) }

// SetTag stores a tag.
func (lease *Lease) SetTag(t Tag) {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	lease.tag = t
}

// Tag returns the stored tag, or the zero value.
func (lease *Lease) Tag() Tag {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	return lease.tag
}

// TakeUnread returns the tag's Unread and sets it to nil.
func (lease *Lease) TakeUnread() *Unread {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	unread := lease.tag.Unread
	lease.tag.Unread = nil
	return unread
}

// Picked returns the Load of the endpoint that this process picked; nil for an adopted or resumed
// lease.
func (lease *Lease) Picked() *Load { return lease.picked }

// Release ends the lease and removes the request from the server's load. It returns false if the
// lease was already released.
func (lease *Lease) Release() bool {
	lease.mu.Lock()
	load := lease.load
	if load == nil {
		lease.mu.Unlock()
		return false
	}
	lease.endPrompt()
	lease.endTrial()
	lease.movePlain(nil)
	lease.load = nil
	parts := lease.takeParts()
	onEnd := lease.onEnd
	lease.onEnd = nil
	lease.mu.Unlock()
	endParts(parts, 0)
	if onEnd != nil {
		onEnd()
	}
	load.end()
	l := lease.leases
	if lease.adopted != "" {
		l.mu.Lock()
		delete(l.adopted, lease.adopted)
		l.mu.Unlock()
	} else {
		shard := &l.shards[lease.id%leaseShards]
		shard.mu.Lock()
		delete(shard.open, lease.id)
		shard.mu.Unlock()
	}
	lease.ledger.open.Add(-1)
	l.open.Add(-1)
	lease.Done()
	return true
}

// MoveTo moves the lease to the endpoint that now serves the request, for example after a retry.
func (lease *Lease) MoveTo(to *Load, now time.Time) {
	lease.mu.Lock()
	from := lease.load
	if to != nil && to == lease.front {
		to = lease.picked
	}
	if to == nil || from == nil || from == to {
		lease.mu.Unlock()
		return
	}
	waited := lease.endPrompt()
	lease.endTrial()
	lease.movePlain(to)
	lease.sent = sinceStart(now)
	if lease.load = to; waited {
		lease.beginPrompt(to, now)
	}
	lease.mu.Unlock()
	to.start(0)
	to.follow(to.sent.Add(1))
	from.end()
}

// Len counts the open leases.
func (l *Leases) Len() int { return int(l.open.Load()) }

func (l *Leases) tick() time.Duration { return max(l.timeout/(agendaPages/2), time.Millisecond) }

// Run releases leases after their timeout, until ctx ends.
func (l *Leases) Run(ctx context.Context) error {
	tick := time.NewTicker(l.tick())
	defer tick.Stop()
	for {
		if l.open.Load() == 0 {
			tick.Stop()
			select {
			case <-ctx.Done():
				return nil
			case <-l.first:
			}
			tick.Reset(l.tick())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			l.expire(time.Duration(sinceStart(time.Now())))
		}
	}
}

func (l *Leases) expire(now time.Duration) {
	var old []*Lease
	add := func(lease *Lease) time.Duration {
		at := time.Duration(lease.renewed.Load())
		if at == untilEnd {
			return now + l.timeout
		}
		if now-at < l.timeout {
			return at + l.timeout
		}
		old = append(old, lease.use())
		return never
	}
	for i := range l.shards {
		shard := &l.shards[i]
		shard.mu.Lock()
		shard.due.each(now, func(id uint64) time.Duration {
			if lease := shard.open[id]; lease != nil {
				return add(lease)
			}
			return never
		})
		shard.mu.Unlock()
	}
	l.mu.Lock()
	for _, lease := range l.adopted {
		add(lease)
	}
	for len(l.forget) > 0 && now-l.forget[0].at >= resumable {
		if f := l.forget[0]; l.expired[f.id].at == f.at { // otherwise the lease was resumed and has expired again
			delete(l.expired, f.id)
		}
		l.forget = l.forget[1:]
	}
	for _, lease := range old {
		if lease.adopted == "" && len(l.forget) < maxExpired {
			l.expired[lease.id] = expired{lease.holder, now}
			l.forget = append(l.forget, forget{lease.id, now})
		}
	}
	l.mu.Unlock()
	for _, lease := range old {
		lease.Release()
		lease.Done()
	}
}
