package publish

import (
	"cmp"
	"strconv"
	"time"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

// Config is what a Stream needs.
type Config struct {
	// Watchdog is how long the proxy may keep the ACK of clusters (it withholds it while any of them warms), or of a
	// hop, before others go on without. What names a cluster that the proxy has never had waits on. Default: 300 ms.
	Watchdog time.Duration
	// Drain is how long clusters stay that a filter chain used which is gone: at least the proxy's --drain-time-s.
	Drain time.Duration
	// Linger is how long clusters stay that routes have left: a request that has chosen one may still wait for its pick, and
	// would be answered that there is no such cluster.
	Linger time.Duration
	// Called says of a cluster that the proxy itself calls it, for as long as a request lasts: such a one stays for Drain in
	// Linger's place, because its calls are cut with it. nil: none is.
	Called func(cluster string) bool
	// Settle is how long removals wait for what a proxy may have that came back with versions which we do not know:
	// until it has asked for its routes, and for listeners that its endpoints may name. Default: 3 s.
	Settle time.Duration
	// Lagging says that what is missing in the cache may exist: the process that fills it does not hear from its sources. No
	// listener and no cluster is removed then. nil: never.
	Lagging func() bool
	// StateOfTheWorld is the older variant of the protocol.
	StateOfTheWorld bool
}

// Stream is the state machine of one ADS stream. Not safe for use by many.
type Stream struct {
	config Config
	cursor *cache.Cursor

	wildcard [types]bool
	first    [types]bool // the type's first request is yet to come
	silent   [types]bool // the proxy waits for a first answer, even an empty one
	asked    bitSet      // names that the proxy subscribes to
	held     bitSet      // names of which the proxy may have a version
	items    [types]map[*cache.Slot]*item
	accepted map[*cache.Slot]*cache.Entry // see nowHas; empty in delta
	carried  map[*cache.Slot]string       // the version that the last state of the world had of a cluster; empty in delta
	owed     map[*cache.Slot]bool         // endpoints of clusters that were sent before the first request for endpoints
	drain    map[*cache.Slot]time.Time    // when a chain that used this cluster has drained

	unacked  []*Response // oldest first
	nonce    uint64
	unsure   time.Time // since when it has versions that we may not know; zero: it came with nothing
	wake     time.Time
	calm     bool   // see isCalm; of the stage that runs
	retrying bool   // some listener has a time to be tried again
	news     uint64 // counts changes of Rejections
	lastNack [types]string
}

const types = int(resource.RouteConfiguration) + 1

// item is a name for which the proxy is not known to have what it should have. Names without one are in order.
type item struct {
	slot *cache.Slot
	// have is what the proxy accepted last; stale, that it has a version which we do not know.
	have  *cache.Entry
	stale bool
	// want is what it should have; nil: nothing.
	want *cache.Entry
	// dirty: want is to be sent. A clean item is in flight, rejected, or waits for the proxy to lose interest.
	dirty bool
	since time.Time // when it became dirty
	// now: the proxy waits for an answer, whatever the order.
	now bool
	// alone: in a response of its own, to find out which one is rejected.
	alone bool
	// flight is the newest response that carries it and has no answer yet.
	flight *Response

	bad    string  // the version that was rejected
	reason string  // the proxy's words; kept until it accepts something
	faults []Fault // of a route configuration, what is bad in it
	cut    *quarantine
	retry  time.Time // when the same version may be sent again; zero: never
}

// Response is one message to send.
type Response struct {
	Type  resource.Type
	Nonce string
	// Version is system_version_info, or version_info of a state of the world.
	Version string
	Upserts []*cache.Entry
	Removed []string // names; empty in a state of the world, where what is missing is removed
	// At is when it was made.
	At time.Time

	parts []part
	// carried are clusters that are no part of a state of the world, and in another version than in the one before.
	carried []*cache.Entry
}

// part is what a response changes.
type part struct {
	it    *item
	entry *cache.Entry // nil: removed
}

// New starts a stream on a cursor, which the stream closes.
func New(cursor *cache.Cursor, c Config) *Stream {
	c.Watchdog = cmp.Or(c.Watchdog, 300*time.Millisecond)
	c.Settle = cmp.Or(c.Settle, 3*time.Second)
	s := &Stream{config: c, cursor: cursor, accepted: map[*cache.Slot]*cache.Entry{}, carried: map[*cache.Slot]string{},
		owed: map[*cache.Slot]bool{}, drain: map[*cache.Slot]time.Time{}}
	for t := range s.items {
		s.items[t] = map[*cache.Slot]*item{}
		s.first[t] = true
	}
	return s
}

// Close ends the stream.
func (s *Stream) Close() { s.cursor.Close(s.asked.all, s.held.all) }

// Wake is when Flush should be called next although nothing happens; zero: not.
func (s *Stream) Wake() time.Time { return s.wake }

// pull takes in what was committed.
func (s *Stream) pull(now time.Time) {
	d := s.cursor.Pull()
	for _, c := range d.Changes {
		it := s.items[c.Slot.Type][c.Slot]
		if it == nil && !s.interested(c.Slot) {
			continue
		}
		if it == nil {
			it = s.item(c.Slot)
			if s.held.has(c.Slot.ID) {
				// It may have got a version that was newer than what had been pulled.
				it.have, it.stale = c.Prev, d.Reset || c.Prev == nil
			}
		}
		s.aim(it, c.Entry, now)
	}
	if d.Reset {
		s.unsure = now
		s.findRemoved(now)
	}
}

// findRemoved is for when the log does not say what is gone.
func (s *Stream) findRemoved(now time.Time) {
	for id := range s.held.all {
		slot := s.cursor.Slot(id)
		if slot.Current() != nil {
			continue
		}
		it := s.items[slot.Type][slot]
		if it == nil {
			it = s.item(slot)
			it.stale = true
		}
		s.aim(it, nil, now)
	}
}

func (s *Stream) interested(slot *cache.Slot) bool {
	return s.wildcard[slot.Type] || s.asked.has(slot.ID) || s.held.has(slot.ID)
}

// item makes the item of a slot that has none, as if the proxy had nothing.
func (s *Stream) item(slot *cache.Slot) *item {
	it := &item{slot: slot}
	s.items[slot.Type][slot] = it
	return it
}

// settled is the item of a slot; made as if the proxy had the current version, if it is said to hold any.
func (s *Stream) settled(slot *cache.Slot) *item {
	it := s.items[slot.Type][slot]
	if it == nil {
		it = s.item(slot)
		if current := slot.Current(); s.held.has(slot.ID) {
			if current == nil || current.Seq <= s.cursor.Seq() {
				it.have = current
			} else {
				it.stale = true // it has an older one
			}
			it.want = current
		}
	}
	return it
}

// aim sets what the proxy should have.
func (s *Stream) aim(it *item, want *cache.Entry, now time.Time) {
	slot := it.slot
	if want == nil {
		switch {
		case it.now, slot.Type == resource.Endpoints && slot.Named() && s.interested(slot):
			// It waits for an answer. Or the cluster stays: no endpoints is one, while "removed" would be ignored.
			want = cache.Placeholder(slot)
		case slot.Type == resource.Endpoints && it.have != nil && s.asked.has(slot.ID) && len(s.missingHops(it.have)) > 0:
			// At a start endpoints come before hops. These hops will not come, and the cluster may stay.
			want = withoutHops(it.have, s.missingHops(it.have))
		case it.have == nil && !it.stale && it.flight == nil, slot.Type == resource.Secret:
			s.drop(it) // it has none; or it keeps its secret, whatever we say, until it loses interest
			return
		}
	}
	it.want = want
	if it.cut != nil && want != nil && want.Version == it.bad {
		return // it is being looked into
	}
	it.cut = nil
	switch {
	case want == nil && it.now:
	case want == nil:
		// What the proxy asks for by name it gives up by itself, when nothing of its own names it any more.
		s.dirty(it, s.wildcard[slot.Type], now)
	case it.flight != nil && it.onItsWay() != nil && it.onItsWay().Version == want.Version:
		it.dirty = false
	case it.flight == nil && it.have != nil && it.have.Version == want.Version && !it.now:
		it.have = want
		s.accept(it)
	case want.Version == it.bad:
		it.dirty = false
	default:
		// A name that was only expected is sent when the proxy asks for it.
		s.dirty(it, s.interested(slot), now)
	}
}

func (s *Stream) dirty(it *item, dirty bool, now time.Time) {
	if dirty && !it.dirty {
		it.since = now
	}
	it.dirty = dirty
}

// onItsWay is the version of an item that is in flight; nil for a removal.
func (it *item) onItsWay() *cache.Entry {
	for _, p := range it.flight.parts {
		if p.it == it {
			return p.entry
		}
	}
	return nil
}

// last is the version that the proxy was sent last; nil if none, or none that we know.
func (it *item) last() *cache.Entry {
	if it.flight != nil {
		return it.onItsWay()
	}
	return it.have
}

// accept ends an item whose name is in order.
func (s *Stream) accept(it *item) {
	s.forgive(it)
	it.dirty, it.alone = false, false
	if it.slot.Current() != nil {
		s.drop(it) // otherwise only the item knows what the proxy has
	}
}

// forgive forgets that a version was refused.
func (s *Stream) forgive(it *item) {
	if it.reason != "" {
		s.news++
	}
	it.reason, it.bad, it.faults, it.cut = "", "", nil, nil
}

func (s *Stream) drop(it *item) {
	if it.reason != "" {
		s.news++
	}
	delete(s.items[it.slot.Type], it.slot)
}

// hold notes that the proxy may have a version of a name.
func (s *Stream) hold(slot *cache.Slot) {
	if !s.held.has(slot.ID) {
		s.cursor.Hold(slot)
		s.held.set(slot.ID)
	}
}

func (s *Stream) unhold(slot *cache.Slot) {
	if s.held.has(slot.ID) {
		s.held.clear(slot.ID)
		s.cursor.Release(slot)
	}
}

// Rejection is a resource that the proxy refuses.
type Rejection struct {
	Ref     resource.Ref
	Version string
	// Host and Route name the virtual host and the route in it that are bad in a route configuration of which all the
	// rest is in force. Both are empty if the whole resource is withheld; Route is if the host itself is bad.
	Host, Route string
	Message     string // the proxy's words
	Owners      []report.Ref
}

// Rejections are the resources of which the proxy refuses the newest version that it was sent, by type, unordered
// within one. What it had before stays in force.
func (s *Stream) Rejections() []Rejection {
	var out []Rejection
	for t := range s.items {
		for _, it := range s.items[t] {
			r := Rejection{Ref: it.slot.Ref, Version: it.bad, Message: it.reason}
			switch {
			case it.reason == "" || it.cut != nil && it.faults == nil:
				continue // soon it is known what is bad in it
			case it.faults != nil:
				for _, f := range it.faults {
					r.Host, r.Route, r.Message, r.Owners = f.Host, f.Route, f.Message, f.Owners
					out = append(out, r)
				}
				continue
			case it.want != nil:
				r.Owners = it.want.Owners()
			}
			out = append(out, r)
		}
	}
	return out
}

// News changes whenever Rejections may have changed.
func (s *Stream) News() uint64 { return s.news }

// Refused is the version of a name that the proxy refuses, and its words; empty if it refuses none.
func (s *Stream) Refused(slot *cache.Slot) (version, reason string) {
	if it := s.items[slot.Type][slot]; it != nil && it.reason != "" {
		return it.bad, it.reason
	}
	return "", ""
}

// Started says whether the proxy has come as far as asking for its listeners.
func (s *Stream) Started() bool { return !s.first[resource.Cluster] && !s.first[resource.Listener] }

// Settled says whether the proxy has been offered all that it should have and has answered.
func (s *Stream) Settled() bool {
	if !s.Started() || !s.unsure.IsZero() && s.first[resource.RouteConfiguration] || len(s.unacked) > 0 {
		return false
	}
	for t := range s.items {
		for _, it := range s.items[t] {
			if it.dirty && it.want != nil {
				return false
			}
		}
	}
	return true
}

// Accepted is the version of a name that the proxy has accepted last and still has; nil if none, or none that we know.
func (s *Stream) Accepted(slot *cache.Slot) *cache.Entry {
	if it := s.items[slot.Type][slot]; it != nil {
		return it.have
	}
	if e := slot.Current(); e != nil && s.held.has(slot.ID) && e.Seq <= s.cursor.Seq() {
		return e
	}
	return nil
}

// Trouble says whether the proxy lacks something that it should have, be it only on its way, and whether it refuses
// something.
func (s *Stream) Trouble() (behind, refusing bool) {
	for t := range s.items {
		for _, it := range s.items[t] {
			refusing = refusing || it.reason != ""
			behind = behind || it.reason == "" && it.want != nil && (it.dirty || it.flight != nil)
		}
	}
	return behind, refusing
}

// Summary is how one type stands.
type Summary struct {
	Held     int    `json:"held"`     // names of which the proxy has a version
	Pending  int    `json:"pending"`  // names on their way to it, or waiting for their turn
	Leaving  int    `json:"leaving"`  // of those pending, names to be taken from it
	Rejected int    `json:"rejected"` // names of which it refuses the newest version
	LastNack string `json:"lastNack,omitempty"`
}

// InSync says whether the proxy has everything of a type that it should have.
func (s Summary) InSync() bool { return s.Pending == 0 && s.Rejected == 0 }

// Summaries is how every type stands, in the order of resource.Types.
func (s *Stream) Summaries() []Summary {
	out := make([]Summary, types)
	for id := range s.held.all {
		out[s.cursor.Slot(id).Type].Held++
	}
	for t := range s.items {
		out[t].LastNack = s.lastNack[t]
		for _, it := range s.items[t] {
			switch {
			case it.reason != "":
				out[t].Rejected++
			case it.dirty || it.flight != nil:
				out[t].Pending++
				if it.want == nil {
					out[t].Leaving++
				}
			}
		}
	}
	return out
}

// respond makes a response of parts and notes that it is on its way.
func (s *Stream) respond(t resource.Type, parts []part, now time.Time) *Response {
	s.nonce++
	r := &Response{Type: t, Nonce: strconv.FormatUint(s.nonce, 36), At: now, parts: parts}
	for _, p := range parts {
		p.it.flight, p.it.dirty, p.it.now = r, p.entry != p.it.want, false
		if p.entry == nil {
			r.Removed = append(r.Removed, p.it.slot.Name)
			s.chainGone(p.it.have, nil, now)
			delete(s.accepted, p.it.slot)
			delete(s.carried, p.it.slot)
			p.it.have, p.it.stale = nil, false // from now on it must not be counted on
			s.forgive(p.it)                    // what comes under this name again is as new
			continue
		}
		s.hold(p.it.slot)
		r.Upserts = append(r.Upserts, p.entry)
	}
	s.unacked = append(s.unacked, r)
	if s.config.StateOfTheWorld {
		s.completeState(r)
	}
	return r
}
