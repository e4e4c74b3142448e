package registry

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-memdb"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store/rows"
	"github.com/penstock-project/penstock/multicluster/fault"
)

// WatchSet watches the results of methods. Its method WatchCtx returns once one of them may have
// changed.
type WatchSet = memdb.WatchSet

// NewWatchSet makes an empty WatchSet.
func NewWatchSet() WatchSet { return memdb.NewWatchSet() }

// Config configures a Registry.
type Config struct {
	// Lease is how long a member is Ready after its last update. Default: 15 s.
	Lease time.Duration
	// Drain is how long a withdrawn export stays, for requests in flight. Default: 10 minutes.
	Drain time.Duration
	// Exports limits all members' exports together, including withdrawn exports. Default: 40,000.
	Exports int
	// Now is the clock; its times must have a monotonic reading. nil: time.Now.
	Now func() time.Time
}

// Registry is safe for concurrent use.
type Registry struct {
	cfg    Config
	began  time.Time
	db     *memdb.MemDB
	wake   chan struct{}
	latest atomic.Int64 // newest Export.Since; changed only in write transactions

	mu      sync.Mutex
	unsaved map[RecordID]struct{}
}

// New makes a registry without members.
func New(c Config) *Registry {
	c.Lease, c.Drain = cmp.Or(c.Lease, 15*time.Second), cmp.Or(c.Drain, 10*time.Minute)
	c.Exports = cmp.Or(c.Exports, allExports)
	if c.Now == nil {
		c.Now = time.Now
	}
	db, err := memdb.NewMemDB(schema())
	rows.Must(err)
	return &Registry{cfg: c, began: c.Now(), db: db, wake: make(chan struct{}, 1), unsaved: map[RecordID]struct{}{}}
}

func (r *Registry) now() time.Duration { return max(r.cfg.Now().Sub(r.began), 0) }

// Update has the data that one member published.
type Update struct {
	Member string
	UID    string
	// Stamp is the update's stamp, up to which all exports of the member are known after it.
	Stamp Stamp
	// Started is when the member began to publish, by its own clock; zero: unknown.
	Started time.Time
	// Snapshot means that Exports has all exports of the member. Its other exports are withdrawn.
	Snapshot bool
	// Partial means that further updates of the same snapshot follow: only the last one withdraws
	// exports. Before lists the exports of the preceding ones.
	Partial bool
	Before  []objectid.Pool
	// Exports are new and changed exports, each with the stamp of its last change. Withdrawn are
	// exports that ended at or before Stamp.
	Exports   []Export
	Withdrawn []objectid.Pool
	// Unread has, for each export that could not be decoded, the reason.
	Unread map[objectid.Pool]string
	// Draining means that the whole member drains.
	Draining bool
	// Bundle has the member's published CA certificates, in PEM.
	Bundle []byte
}

// Rejection reports that Apply dropped an update or some of its exports. After the next update
// without one, the caller must request all exports of the member again.
type Rejection struct {
	Member  string
	Problem string
}

// Apply applies updates in one transaction. It returns the pools, sorted, that multicluster/imports
// must assemble again. An accepted update renews its member's lease.
func (r *Registry) Apply(updates ...Update) (changed []objectid.Pool, rejected []Rejection) {
	changed = r.write(func(t txn) {
		for i := range updates {
			if problem := r.apply(t, &updates[i]); problem != "" {
				rejected = append(rejected, Rejection{updates[i].Member, problem})
			}
		}
	})
	return changed, rejected
}

func (r *Registry) apply(t txn, u *Update) (problem string) {
	m := t.member(u.Member)
	if m == nil {
		return "it is no member of the cluster set"
	}
	next, fresh, began := *m, false, r.rewound(m, u)
	older := (u.Stamp.Compare(m.Known) < 0 || began < 0) && !fault.Injected("fence")
	switch {
	case m.UID == "": // exports of an earlier member with this name may still drain
		fresh = true
	case m.UID != u.UID:
		if r.running(t, m) {
			return fmt.Sprintf("cluster %s has its name, and its lease runs; this one is %s", m.UID, u.UID)
		}
		fresh = true
	case older && !r.startsAgain(t, m, u):
		if u.Stamp.Compare(m.Known) >= 0 {
			return fmt.Sprintf("its process began before the known one, and has the same epoch %d",
				u.Stamp.Epoch)
		}
		return fmt.Sprintf("it is older (%d.%d) than the known update (%d.%d)", u.Stamp.Epoch, u.Stamp.Sequence,
			m.Known.Epoch, m.Known.Sequence)
	case older, began > 0:
		fresh = true
	}
	if fresh {
		next.Known = Stamp{}
		t.forget(m.Name)
	}
	if r.plausible(u.Started) {
		next.Started = u.Started
	}
	r.renew(t, m)
	next.UID, next.State, next.connected, next.drained = u.UID, Ready, true, u.Draining
	if u.Draining {
		next.State = Draining
	}
	known := next.Known
	// Accept exports with stamps below Known, because earlier partial updates may have had no
	// effect.
	if u.Snapshot {
		known = Stamp{}
	}
	named, least := make(map[objectid.Pool]bool, len(u.Exports)+len(u.Before)), math.MaxInt
	for _, p := range u.Before {
		named[p] = true
	}
	for i := range u.Exports {
		e := u.Exports[i]
		e.Cluster, e.Entry.Name = m.Name, m.Name
		e.Draining = u.Draining
		named[e.Pool] = true
		if why := r.export(t, &e, known); why != "" {
			problem = why // without the export's name, because many exports must not cause many reports
			least = min(least, e.Size)
		}
	}
	for p, why := range u.Unread {
		r.unread(t, m.Name, p, why)
	}
	withdrawn, whole := slices.Clone(u.Withdrawn), u.Snapshot && !u.Partial
	if whole || m.drained != u.Draining {
		for _, e := range slices.Collect(t.exportsOf(m.Name)) {
			_, unread := u.Unread[e.Pool]
			switch {
			case named[e.Pool], unread && !e.withdrawn && m.drained == u.Draining:
			case whole && !unread:
				withdrawn = append(withdrawn, e.Pool)
			case !e.withdrawn:
				same := *e
				same.Draining = u.Draining
				t.put(&same, e)
			}
		}
	}
	for _, p := range withdrawn {
		if e := t.export(m.Name, p); e != nil && e.Stamp.Compare(u.Stamp) <= 0 {
			r.withdraw(t, e, u.Stamp)
		}
	}
	if u.Snapshot && len(u.Before) == 0 {
		next.denied = denied{}
	}
	switch before := next.denied; {
	case problem != "":
		if before.problem != "" {
			least = min(least, before.least)
		}
		next.denied = denied{problem, least}
	case before.problem != "" && t.fits(m.Name, before.least):
		next.denied = denied{}
	default:
		problem = before.problem
	}
	if next.Bundle = u.Bundle; !u.Partial {
		next.Known = u.Stamp
	}
	if !next.equal(m) {
		rows.Must(t.Insert(memberTable, &next))
	}
	return problem
}

// maxAhead is how far the Started time of a member may be in the future of this process's clock.
const maxAhead = time.Hour

// plausible rejects a start in the future, and before 1970: an API server would reject the times of
// all members.
func (r *Registry) plausible(started time.Time) bool {
	return started.Unix() > 0 && started.Before(r.cfg.Now().Add(maxAhead))
}

// startsAgain reports whether to accept an older stamp, because the member may have lost its epoch:
// its lease has expired, or the sending process began after the known process. A process that began
// before the known process must also wait for maxAhead after the lease.
func (r *Registry) startsAgain(t txn, m *Member, u *Update) bool {
	switch {
	case m.Started.IsZero(), !r.plausible(u.Started):
		return !r.running(t, m)
	case u.Started.Before(m.Started):
		return !r.running(t, m) && r.now() > m.lapsed+maxAhead
	}
	return !r.running(t, m) || u.Started.After(m.Started)
}

// rewound compares when the process that sent u and the known process began, if u has no later
// epoch. Above 0, an older state folder was restored, so newer records may have older stamps. Below
// 0, the known process could not save its epoch, for example on a full disk. 0: neither.
func (r *Registry) rewound(m *Member, u *Update) int {
	if u.Stamp.Epoch > m.Known.Epoch || m.Started.IsZero() || !r.plausible(u.Started) {
		return 0
	}
	return u.Started.Compare(m.Started)
}

func (t txn) forget(member string) {
	for _, e := range slices.Collect(t.exportsOf(member)) {
		old := *e
		old.Stamp = Stamp{}
		t.put(&old, e)
	}
}

// export stores an export. It ignores an older stamp than the stored version has or, without a
// stored version, than known. Its only problem is that the member's share has no room.
func (r *Registry) export(t txn, e *Export, known Stamp) (problem string) {
	old := t.export(e.Cluster, e.Pool)
	switch {
	case fault.Injected("fence"):
	case old == nil && e.Stamp.Compare(known) < 0, old != nil && e.Stamp.Compare(old.Stamp) < 0:
		return ""
	}
	if problem := e.invalid(); problem != "" {
		r.unread(t, e.Cluster, e.Pool, problem)
		return ""
	}
	if e.age = nil; old != nil {
		if e.age = old.age; reflect.DeepEqual(*old, *e) {
			return ""
		}
	}
	if problem = t.room(e, old); problem != "" {
		if old != nil {
			r.unread(t, e.Cluster, e.Pool, problem)
		}
		return problem
	}
	t.put(e, old)
	return ""
}

// Next returns the time until Expire must be called; false: no lease or drain runs.
func (r *Registry) Next() (time.Duration, bool) {
	const never = time.Duration(math.MaxInt64)
	t, next := r.read(), never
	for l := range until[*lease](t, leaseTable, byDeadline, next) {
		next = l.deadline
		break
	}
	for e := range until[*Export](t, exportTable, byDraining, next) {
		next = e.collect
		break
	}
	return max(next-r.now(), 0), next < never
}

// Expire ends leases, and drops drained exports. It returns the pools that multicluster/imports
// must assemble again.
func (r *Registry) Expire() []objectid.Pool {
	return r.write(func(t txn) {
		r.expireLeases(t)
		r.collectDrained(t)
	})
}

// write runs change in a write transaction. It returns the pools, sorted, whose exports or
// exporting members changed.
func (r *Registry) write(change func(t txn)) []objectid.Pool {
	t := txn{r.db.Txn(true), r.cfg.Exports, map[string]Count{}, new(int)}
	defer t.Abort()
	t.TrackChanges()
	change(t)
	t.storeCounts()
	changes := t.Changes()
	t.Commit()
	read := r.read()
	pools := map[objectid.Pool]bool{}
	var unsaved []RecordID
	for _, c := range changes {
		if id, ok := recorded(c.Before, c.After); ok {
			unsaved = append(unsaved, id)
		}
		for _, row := range []any{c.Before, c.After} {
			switch row := row.(type) {
			case *Export:
				pools[row.Pool] = true
			case *Member:
				if before, ok := c.Before.(*Member); ok && c.After != nil && before.State == c.After.(*Member).State {
					continue
				}
				for e := range read.exportsOf(row.Name) {
					pools[e.Pool] = true
				}
			}
		}
	}
	r.MarkUnsaved(unsaved...)
	return slices.SortedFunc(maps.Keys(pools), objectid.Pool.Compare)
}
