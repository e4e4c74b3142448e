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
	// maxID bounds the ID of an adopted lease, in bytes: another process wrote it.
	maxID = 64
	// A lease that expired although its request goes on, as when its Envoy had no CPU for seconds,
	// is resumed by the next renewal. Others are not: a renewal may come late, and its request may
	// have ended. resumable is how long expired leases are known, and maxExpired how many.
	resumable  = time.Minute
	maxExpired = 1 << 16
	// MaxOpen bounds the open leases of one Gateway: a holder of its key may open them without end.
	// It is far more than the requests that one Gateway has in flight.
	MaxOpen = 1 << 16
)

// Leases are the open leases of one picker process.
type Leases struct {
	owner   string
	timeout time.Duration
	next    atomic.Uint64
	open    atomic.Int64
	first   chan struct{} // notifies Run that there are leases
	shards  [leaseShards]shard

	mu      sync.Mutex
	adopted map[string]*Lease
	expired map[uint64]expired
	forget  []forget // of expired, the oldest first; of those that were resumed, too
	ledgers sync.Map // by Gateway: *ledger
}

// Holder is for whom a lease is opened.
type Holder struct {
	Gateway string // "namespace/name"; "" if calls of the picker need no key
	Pool    string // the text of its ID, as access logs have it
}

// ledger counts the open leases of one Gateway.
type ledger struct{ open atomic.Int64 }

// expired is a lease of this process that expired.
type expired struct {
	holder Holder
	at     time.Duration // since processStart
}

// forget is when a lease expired that is to be forgotten.
type forget struct {
	id uint64
	at time.Duration // since processStart
}

type shard struct {
	mu   sync.Mutex
	open map[uint64]*Lease
	due  agenda
}

// Lease is one request in flight at an endpoint: it was picked for and is not known to have ended.
//
// Open, Find, Resume and Adopt return a lease for use until Done. After the last Done of a lease
// that is released its memory is another lease's. A Done that is left out costs that memory and
// nothing else: the garbage collector has it.
type Lease struct {
	uses    atomic.Int32 // the table's until Release, and those until Done
	id      uint64
	adopted string // the ID of a lease that another process opened
	holder  Holder
	ledger  *ledger
	leases  *Leases
	picked  *Load // where the pick sent it; nil for a lease that was adopted or resumed
	work    Work
	reached int64        // when the request was sent, or the first byte came, in nanoseconds since processStart
	renewed atomic.Int64 // in nanoseconds since processStart; untilEnd: it does not expire

	mu     sync.Mutex
	load   *Load         // nil after Release
	prompt promptState   // at load
	begun  bool          // the first token has been seen, or an event before it
	first  time.Duration // after which that event came; 0: none did
	ahead  int64         // tokens that load reads before this prompt
	trial  bool          // picked waits for its outcome
	tag    Tag
	parts  []*Lease // of the request at other servers, until its first token
	onEnd  func()   // called once after Release; nil: nothing is
	front  *Load    // an address that passes requests on to picked; nil for none
	sent   int64    // when load got the request, in nanoseconds since processStart
	shown  int64    // when the last report came, the same
	bytes  int64    // of the response, by that report
	plain  bool     // it counts in load.motion.plain

	headersLimit time.Duration // of LimitHeaders, until the headers are there
	frozen       bool          // Frozen
}

// untilEnd is the renewal of a lease that lives until its Release.
const untilEnd = math.MinInt64

// NewLeases returns an empty Leases. owner distinguishes this process's leases from those of
// others, and has no dot. A lease that is not renewed for timeout expires.
func NewLeases(owner string, timeout time.Duration) *Leases {
	l := &Leases{owner: owner, timeout: timeout, first: make(chan struct{}, 1), adopted: map[string]*Lease{},
		expired: map[uint64]expired{}}
	for i := range l.shards {
		l.shards[i].open, l.shards[i].due = map[uint64]*Lease{}, newAgenda(l.tick())
	}
	return l
}

// Owner returns the first part of the IDs of this process's leases.
func (l *Leases) Owner() string { return l.owner }

// ledger returns that of a Gateway.
func (l *Leases) ledger(gateway string) *ledger {
	of, ok := l.ledgers.Load(gateway)
	if !ok {
		of, _ = l.ledgers.LoadOrStore(gateway, &ledger{})
	}
	return of.(*ledger)
}

// Bounded reports whether a Gateway has MaxOpen leases, so that it gets no more.
func (l *Leases) Bounded(gateway string) bool { return l.ledger(gateway).open.Load() >= MaxOpen }

// Open counts one request in flight at e, and its work. It returns nil if limit requests are in
// flight there already (0 is no limit), or if the work is a trial and there is one.
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

// insert opens a lease of this process at an address that counts it.
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

// OpenAt counts one request in flight at an address that this process has not picked. onEnd is
// called when the lease is released; it must not block.
func (l *Leases) OpenAt(at *Load, h Holder, onEnd func(), now time.Time) *Lease {
	at.start(0)
	return l.insert(&Lease{id: l.next.Add(1), leases: l, holder: h, onEnd: onEnd}, at, now)
}

// Resume opens a lease of this process again that expired although its request goes on. at returns
// the address that serves a pool's request, or nil. It returns nil for any other ID, and for
// another Gateway's.
func (l *Leases) Resume(id, gateway string, at func(pool string) *Load, now time.Time) *Lease {
	number, ok := l.number(id)
	if !ok {
		return nil
	}
	l.mu.Lock()
	was, ok := l.expired[number]
	l.mu.Unlock()
	if !ok || was.holder.Gateway != gateway || l.Bounded(gateway) {
		return nil
	}
	load := at(was.holder.Pool)
	if load == nil {
		return nil
	}
	l.mu.Lock()
	_, ok = l.expired[number] // not resumed meanwhile
	delete(l.expired, number)
	l.mu.Unlock()
	if !ok {
		return nil
	}
	load.start(0)
	return l.insert(&Lease{id: number, leases: l, holder: was.holder}, load, now)
}

// Adopt counts one request in flight at an address that another process picked for, which is gone.
// It returns the lease that has the ID already, if there is one, and nil for an ID that no process
// gives.
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

// Number distinguishes the lease among those of its process; 0 for an adopted one.
func (lease *Lease) Number() uint64 { return lease.id }

// ID is the lease's name in the metadata of a pick, as Find takes it.
func (lease *Lease) ID() string {
	if lease.adopted != "" {
		return lease.adopted
	}
	return lease.leases.owner + "." + strconv.FormatUint(lease.id, 36)
}

// Owner returns the owner of the process that gave an ID; "" for a text that is no ID.
func Owner(id string) string {
	owner, number, _ := strings.Cut(id, ".")
	if number == "" {
		return ""
	}
	return owner
}

// Owns reports whether an ID is one of this process, open or not.
func (l *Leases) Owns(id string) bool { return Owner(id) == l.owner }

// number returns the number of one of this process's leases.
func (l *Leases) number(id string) (uint64, bool) {
	if !l.Owns(id) {
		return 0, false
	}
	n, err := strconv.ParseUint(id[len(l.owner)+1:], 36, 64)
	return n, err == nil
}

// Find returns the open lease with an ID, be it opened or adopted here, or nil.
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

// use returns a lease of the table, whose lock is held, for use until Done.
func (lease *Lease) use() *Lease {
	if lease != nil {
		lease.uses.Add(1)
	}
	return lease
}

// Renew starts the lease's timeout again. A lease that lives until its Release stays so.
func (lease *Lease) Renew(now time.Time) {
	if lease.renewed.Load() != untilEnd {
		lease.renewed.Store(sinceStart(now))
	}
}

// KeepUntilEnd makes the lease live until its Release.
func (lease *Lease) KeepUntilEnd() { lease.renewed.Store(untilEnd) }

// Holder returns for whom the lease was opened.
func (lease *Lease) Holder() Holder { return lease.holder }

// Tag is what the opener of a lease keeps with it.
type Tag struct {
	Number         uint64 // of the opener's choice; 0: none
	Model          string // that the request names; "" if it is not known
	Asks           string // the model that the server gets, if a 404 may be about it; else ""
	Early          bool   // the first byte of its response is no first token
	Tokens, Cached int    // of its prompt, and those that the server has cached
	// Line is that of the request in the recording, which its end completes; nil: it has none.
	Line *recording.Line
	// Charge is that of a cluster of an import; nil: none is charged.
	Charge Charge
	// Unread is the request's prompt, until TakeUnread; nil: none is known.
	Unread *Unread
}

// Charge follows a request by the entries of the access log.
type Charge interface{ Follow(accesslog.Entry) }

// SetTag gives the lease a tag, which Tag returns.
func (lease *Lease) SetTag(t Tag) {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	lease.tag = t
}

// Tag returns what SetTag has set; the zero value without.
func (lease *Lease) Tag() Tag {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	return lease.tag
}

// TakeUnread returns the prompt of the tag, until it is read or the request ends: to one caller,
// and nil to all others.
func (lease *Lease) TakeUnread() *Unread {
	lease.mu.Lock()
	defer lease.mu.Unlock()
	unread := lease.tag.Unread
	lease.tag.Unread = nil
	return unread
}

// Picked returns the counters of the endpoint that the request was sent to first; nil for a lease
// that was adopted or resumed.
func (lease *Lease) Picked() *Load { return lease.picked }

// Release ends the lease: its endpoint has one request less in flight. It returns false if the
// lease was released before.
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
	lease.Done() // the table's use
	return true
}

// MoveTo moves the request to the endpoint that serves it, which after a retry is not the one
// picked.
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

// Len returns how many leases are open.
func (l *Leases) Len() int { return int(l.open.Load()) }

// tick is how often leases expire.
func (l *Leases) tick() time.Duration { return max(l.timeout/(agendaPages/2), time.Millisecond) }

// Run expires leases until ctx ends. Without leases it does nothing.
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

// expire releases the leases that were not renewed in time; now is the time since processStart.
func (l *Leases) expire(now time.Duration) {
	var old []*Lease
	// add returns when the lease is due again.
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
		if f := l.forget[0]; l.expired[f.id].at == f.at { // else it has expired again since
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
