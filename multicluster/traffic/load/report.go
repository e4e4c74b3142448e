package load

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/multicluster/selection"
	"github.com/penstock-project/penstock/picker"
)

const (
	// interval is the time between reports on a pool in use, resting between reports of an
	// unchanged load, and apart between checks for a cluster set or an import.
	interval = 200 * time.Millisecond
	resting  = 5 * time.Second
	apart    = time.Second
	// kept is the number of reports that have the same block, because a report may be lost or
	// replaced.
	kept = 4
	// maxSenders bounds a pool's counted senders. A sender is a process of a member.
	maxSenders = 256
	forgotten  = 10 * time.Minute
)

// Federation connects clusters. *federation.Federation implements it.
type Federation interface {
	Want([]objectid.Member)
	Wanted() []objectid.Member
	PublishLoad(to objectid.Member, l federation.Load) error
	RoundTrip(member string) time.Duration
}

// own is the key that stands for this cluster in maps keyed by member.
const own = ""

type pools struct {
	asked  atomic.Bool // byPool is not empty; if false, picks take no lock
	mu     sync.Mutex
	byPool map[objectid.Pool]*counted
}

type counted struct {
	senders map[string]*sender
	news    *selection.News
	recent  [kept][]uint64
	last    federation.Load
	to      []string
	next    time.Time
}

type sender struct {
	requests uint64
	at       time.Time
}

// Sent counts a request that this process's picker, or the picker of a replica, sent to a server.
func (l *Loads) Sent(s picker.Sent) {
	if !l.pools.asked.Load() {
		return
	}
	l.pools.mu.Lock()
	defer l.pools.mu.Unlock()
	c := l.pools.byPool[s.Pool.Pool]
	if c == nil || s.Pool.Imported() {
		return
	}
	if c.news != nil {
		c.news.Add(s.Chain)
	}
	if s.Sender == "" {
		return
	}
	from := c.senders[s.Sender]
	if from == nil {
		if len(c.senders) == maxSenders {
			return // a sender without a count estimates the load from its own requests
		}
		from = &sender{}
		c.senders[s.Sender] = from
	}
	from.requests++
	from.at = time.Now()
}

// Receive applies a member's report on its pool, for choosing among the clusters of the pool's
// import.
func (l *Loads) Receive(from objectid.Member, load federation.Load) {
	sender, now := l.Sender(), time.Now()
	r := selection.Report{Least: load.Least, Servers: load.Servers, Rate: load.Rate, Counted: load.Counted[sender],
		Epoch: load.Epoch, Blocks: load.Blocks, Capacity: load.Capacity, Interval: load.Interval}
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, c := range l.imports {
		if c.pool == from.Pool && !c.latency {
			c.load.Report(now, from.Member, r)
		}
	}
}

// Run reports this cluster's load to members until ctx ends.
func (l *Loads) Run(ctx context.Context) error {
	var far time.Time
	var asked Federation
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-time.After(l.pause()):
			if name := l.cfg.Cluster(); name != "" {
				if sender := name + "/" + l.id; l.Sender() != sender {
					l.sender.Store(&sender)
				}
			}
			if now.Sub(far) > resting {
				far = now
				l.measure()
			}
			if f := l.cfg.Federation(); l.takeChanged() || f != asked {
				asked = f
				l.want()
			}
			l.report(now)
		}
	}
}

func (l *Loads) pause() time.Duration {
	if l.cfg.Federation() != nil {
		return interval
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if len(l.imports) > 0 {
		return interval
	}
	return apart
}

func (l *Loads) takeChanged() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := l.changed
	l.changed = false
	return changed
}

func (l *Loads) measure() {
	l.mu.RLock()
	for _, c := range l.imports {
		c.setMembers(l.roundTrips(), l.servers)
	}
	l.mu.RUnlock()
}

func (l *Loads) want() {
	f := l.cfg.Federation()
	if f == nil {
		return
	}
	var list []objectid.Member
	l.mu.RLock()
	for _, c := range l.imports {
		for _, m := range c.list {
			if !m.Local && !c.latency {
				list = append(list, objectid.Member{Member: m.Name, Pool: c.pool})
			}
		}
	}
	l.mu.RUnlock()
	f.Want(list)
}

func (l *Loads) report(now time.Time) {
	f := l.cfg.Federation()
	asked := map[objectid.Pool][]string{}
	if f != nil {
		for _, m := range f.Wanted() {
			asked[m.Pool] = append(asked[m.Pool], m.Member)
		}
	}
	local := map[objectid.Pool]string{}
	l.mu.RLock()
	for _, c := range l.imports {
		if c.local != "" && !c.latency {
			local[c.pool] = c.local
			asked[c.pool] = append(asked[c.pool], own)
		}
	}
	l.mu.RUnlock()
	l.keep(asked)
	for pool, members := range asked {
		load, due := l.load(now, pool, members)
		if !due {
			continue
		}
		for _, m := range members {
			if m == own {
				l.Receive(objectid.Member{Member: local[pool], Pool: pool}, load)
				continue
			}
			theirs := load
			theirs.Counted = l.countedFor(pool, m)
			if err := f.PublishLoad(objectid.Member{Member: m, Pool: pool}, theirs); err != nil {
				l.cfg.Log.Error("the load of a pool cannot be reported", "error", err)
			}
		}
	}
}

func (l *Loads) keep(asked map[objectid.Pool][]string) {
	l.pools.mu.Lock()
	defer l.pools.mu.Unlock()
	for p := range asked {
		if l.pools.byPool[p] == nil {
			l.pools.byPool[p] = &counted{senders: map[string]*sender{}}
		}
	}
	for p := range l.pools.byPool {
		if asked[p] == nil {
			delete(l.pools.byPool, p)
		}
	}
	l.pools.asked.Store(len(l.pools.byPool) > 0)
}

// load returns the report on a pool, with the counts of all senders. due is false if the load is
// unchanged, and the last report is younger than resting.
func (l *Loads) load(now time.Time, pool objectid.Pool, members []string) (load federation.Load, due bool) {
	w, capacity, ok := l.cfg.Waiting(pool)
	if !ok { // an external picker picks, so importers estimate the load
		return load, false
	}
	l.pools.mu.Lock()
	defer l.pools.mu.Unlock()
	c := l.pools.byPool[pool]
	if c == nil {
		return load, false
	}
	load = federation.Load{Least: w.Least, Servers: w.Servers, Rate: w.Rate, Capacity: capacity, Epoch: l.epoch,
		Interval: interval, Counted: map[string]uint64{}}
	for name, s := range c.senders {
		if now.Sub(s.at) > forgotten {
			delete(c.senders, name)
			continue
		}
		load.Counted[name] = s.requests
	}
	if c.news == nil {
		c.news = selection.NewNews(capacity)
	}
	copy(c.recent[1:], c.recent[:])
	c.recent[0] = c.news.Take()
	load.Blocks = slices.Concat(c.recent[:]...)
	slices.Sort(members)
	same := len(load.Blocks) == 0 && slices.Equal(members, c.to) && load.Least == c.last.Least &&
		load.Servers == c.last.Servers && load.Rate == c.last.Rate && load.Capacity == c.last.Capacity &&
		maps.Equal(load.Counted, c.last.Counted)
	switch {
	case !same:
		c.next = now
	case c.last.Interval == resting && now.Before(c.next):
		return load, false
	default:
		load.Interval, c.next = resting, now.Add(resting)
	}
	c.last, c.to = load, members
	return load, true
}

func (l *Loads) countedFor(pool objectid.Pool, member string) map[string]uint64 {
	l.pools.mu.Lock()
	defer l.pools.mu.Unlock()
	if c := l.pools.byPool[pool]; c != nil {
		return c.sentBy(member)
	}
	return nil
}

// sentBy returns the requests of the senders whose names begin with the member's name.
func (c *counted) sentBy(member string) map[string]uint64 {
	out := map[string]uint64{}
	for name, s := range c.senders {
		if strings.HasPrefix(name, member+"/") {
			out[name] = s.requests
		}
	}
	return out
}
