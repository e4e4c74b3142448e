package clusterload

import (
	"context"
	mathrand "math/rand/v2"
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
	// interval is the time between two reports of a pool that is in use, and resting that of one
	// which is not.
	interval = 200 * time.Millisecond
	resting  = 5 * time.Second
	// kept is how many reports have a block: one that is lost, or replaced before it is sent, costs
	// nothing.
	kept = 4
	// maxSenders bounds the senders of a pool that are counted. A sender is a process of a member.
	maxSenders = 256
	// forgotten is when a sender without requests is forgotten.
	forgotten = 10 * time.Minute
)

// Federation is what passes between clusters. *federation.Federation implements it.
type Federation interface {
	Want([]objectid.Member)
	Wanted() []objectid.Member
	PublishLoad(to objectid.Member, is federation.Load) error
	RoundTrip(member string) time.Duration
}

// own stands for this cluster among members.
const own = ""

// pools are those whose load is asked for.
type pools struct {
	asked atomic.Bool // there are some: picks take no lock where no cluster asks
	mu    sync.Mutex
	of    map[objectid.Pool]*counted
}

// counted is what picks show of a pool.
type counted struct {
	senders map[string]*sender
	news    *selection.News // nil before the first report
	recent  [kept][]uint64  // blocks of the last reports
	last    federation.Load
	to      []string  // members that the last report was for
	next    time.Time // of the next report, if nothing changes
}

type sender struct {
	requests uint64
	at       time.Time
}

// Sent notes a pick of this process, or of a replica.
func (l *Loads) Sent(s picker.Sent) {
	if !l.pools.asked.Load() {
		return
	}
	l.pools.mu.Lock()
	defer l.pools.mu.Unlock()
	c := l.pools.of[s.Pool.Pool]
	if c == nil || s.Pool.Imported() {
		return
	}
	if len(s.Chain) > 0 && c.news != nil {
		c.news.Add(s.Chain)
	}
	if s.Sender == "" {
		return
	}
	of := c.senders[s.Sender]
	if of == nil {
		if len(c.senders) == maxSenders {
			return // it goes by its own requests
		}
		of = &sender{}
		c.senders[s.Sender] = of
	}
	of.requests++
	of.at = time.Now()
}

// Receive takes the report of a member over.
func (l *Loads) Receive(of objectid.Member, is federation.Load) {
	l.take(of.Pool, of.Member, is)
}

// take passes the report of a cluster to the imports that have it.
func (l *Loads) take(pool objectid.Pool, cluster string, is federation.Load) {
	sender, now := l.Sender(), time.Now()
	r := selection.Report{Least: is.Least, Servers: is.Servers, Rate: is.Rate, Counted: is.Counted[sender],
		Epoch: is.Epoch, Blocks: is.Blocks, Capacity: is.Capacity, Interval: is.Interval}
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, c := range l.imports {
		if c.pool == pool && !c.latency {
			c.load.Report(now, cluster, r)
		}
	}
}

// Run reports until ctx ends.
func (l *Loads) Run(ctx context.Context) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var far time.Time
	var asked Federation
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-tick.C:
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

// takeChanged reports whether imports have changed since the last call.
func (l *Loads) takeChanged() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	is := l.changed
	l.changed = false
	return is
}

// measure takes over how far members are away.
func (l *Loads) measure() {
	l.mu.RLock()
	for _, c := range l.imports {
		c.setMembers(l.roundTrips(), l.servers)
	}
	l.mu.RUnlock()
}

// want asks members for the load of the pools that are chosen among.
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

// report sends members the load of the pools that they ask for, and takes that of this cluster
// itself over.
func (l *Loads) report(now time.Time) {
	f := l.cfg.Federation()
	asked := map[objectid.Pool][]string{} // members, and own
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
		is, due := l.load(now, pool, members)
		if !due {
			continue
		}
		for _, m := range members {
			if m == own {
				l.take(pool, local[pool], is)
				continue
			}
			theirs := is
			theirs.Counted = l.countedFor(pool, m)
			if err := f.PublishLoad(objectid.Member{Member: m, Pool: pool}, theirs); err != nil {
				l.cfg.Log.Error("the load of a pool cannot be reported", "error", err)
			}
		}
	}
}

// keep has picks noted of the pools that are asked for, and of no others.
func (l *Loads) keep(asked map[objectid.Pool][]string) {
	l.pools.mu.Lock()
	defer l.pools.mu.Unlock()
	for p := range asked {
		if l.pools.of[p] == nil {
			l.pools.of[p] = &counted{senders: map[string]*sender{}}
		}
	}
	for p := range l.pools.of {
		if asked[p] == nil {
			delete(l.pools.of, p)
		}
	}
	l.pools.asked.Store(len(l.pools.of) > 0)
}

// load is the report of a pool for members, with the requests of all senders. It is not due if
// nothing has changed since the last one, whose interval goes on.
func (l *Loads) load(now time.Time, pool objectid.Pool, members []string) (is federation.Load, due bool) {
	w, capacity, ok := l.cfg.Waiting(pool)
	if !ok { // an external picker's: it goes by requests alone
		return is, false
	}
	l.pools.mu.Lock()
	defer l.pools.mu.Unlock()
	c := l.pools.of[pool]
	if c == nil {
		return is, false
	}
	is = federation.Load{Least: w.Least, Servers: w.Servers, Rate: w.Rate, Capacity: capacity, Epoch: l.epoch,
		Interval: interval, Counted: map[string]uint64{}}
	for name, s := range c.senders {
		if now.Sub(s.at) > forgotten {
			delete(c.senders, name)
			continue
		}
		is.Counted[name] = s.requests
	}
	if c.news == nil {
		c.news = selection.NewNews(mathrand.Uint64(), capacity)
	}
	copy(c.recent[1:], c.recent[:])
	c.recent[0], _ = c.news.Take(nil)
	is.Blocks = slices.Concat(c.recent[:]...)
	slices.Sort(members)
	same := len(is.Blocks) == 0 && slices.Equal(members, c.to) && is.Least == c.last.Least &&
		is.Servers == c.last.Servers && is.Rate == c.last.Rate && is.Capacity == c.last.Capacity &&
		sameCounts(is.Counted, c.last.Counted)
	switch {
	case !same:
		c.next = now
	case c.last.Interval == resting && now.Before(c.next):
		return is, false
	default:
		is.Interval, c.next = resting, now.Add(resting)
	}
	c.last, c.to = is, members
	return is, true
}

func sameCounts(a, b map[string]uint64) bool {
	if len(a) != len(b) {
		return false
	}
	for name, n := range a {
		if b[name] != n {
			return false
		}
	}
	return true
}

// countedFor are the requests of a member's senders.
func (l *Loads) countedFor(pool objectid.Pool, member string) map[string]uint64 {
	l.pools.mu.Lock()
	defer l.pools.mu.Unlock()
	if c := l.pools.of[pool]; c != nil {
		return c.sentBy(member)
	}
	return nil
}

// sentBy are the requests of a member's senders, whose names begin with the member's.
func (c *counted) sentBy(member string) map[string]uint64 {
	out := map[string]uint64{}
	for name, s := range c.senders {
		if strings.HasPrefix(name, member+"/") {
			out[name] = s.requests
		}
	}
	return out
}
