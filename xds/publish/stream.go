package publish

import (
	"cmp"
	"strconv"
	"time"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

// Config configures a Stream.
type Config struct {
	// Watchdog bounds how long resources wait for the ACK of clusters, which Envoy withholds while
	// any cluster warms. Watchdog also bounds the wait for a new internal listener. A resource
	// waits for its own new clusters without a bound. Default: 300 ms.
	Watchdog time.Duration
	// Drain is the drain time of a removed filter chain, at least --drain-time-s.
	Drain time.Duration
	// Linger is how long a cluster stays after its last route: a request that chose it may wait for
	// the external picker.
	Linger time.Duration
	// Called reports whether the proxy's calls to a cluster last as long as a client's request.
	// Such a cluster stays for the longer of Drain and Linger.
	Called func(cluster string) bool
	// Settle bounds two waits after a proxy resumes with versions that the cache lacks. Removals
	// wait until the proxy subscribes to its routes. Removals of listeners wait for endpoints that
	// may name them. Default: 3 s.
	Settle time.Duration
	// Lagging reports whether the cache may lack resources, because sources cannot be read.
	// Meanwhile no listener or cluster is removed.
	Lagging func() bool
	// StateOfTheWorld selects the state-of-the-world protocol instead of delta.
	StateOfTheWorld bool
}

// Stream is the state machine of one ADS stream. It is not safe for concurrent use.
type Stream struct {
	config Config
	cursor *cache.Cursor

	wildcard   [types]bool
	first      [types]bool
	unanswered [types]bool // the first response is due, even if empty
	subscribed bitSet
	held       bitSet // names of which the proxy may have a version
	suspects   bitSet // secrets that the proxy may have stored and rejected; see marked
	sent       bitSet
	items      [types]map[*cache.Slot]*item
	accepted   map[*cache.Slot]*cache.Entry // last accepted versions; only in state of the world
	carried    map[*cache.Slot]string       // cluster versions in the last response; only in state of the world
	// owed has endpoints whose clusters were sent before the first request for endpoints.
	owed  map[*cache.Slot]bool
	drain map[*cache.Slot]time.Time // end of a cluster's drain time or linger timeout

	unacked       []*Response
	nonce         uint64
	resumed       bool
	resumedAt     time.Time // zero unless the proxy resumed with versions that the cache may lack
	nextFlush     time.Time
	calm          bool
	retrying      bool
	rejectionsSeq uint64
	lastNack      [types]string
}

const types = int(resource.RouteConfiguration) + 1

// item is a name for which the proxy may not have the desired version.
type item struct {
	slot  *cache.Slot
	have  *cache.Entry
	stale bool
	want  *cache.Entry
	// An item that is not dirty is in flight, rejected, or waits for the proxy to unsubscribe.
	dirty bool
	since time.Time
	// idle is the time since which no request can reach a removed internal listener.
	idle time.Time
	// now means that the proxy waits for a response, so the order of delivery does not apply.
	now bool
	// alone means a separate response, so that a NACK identifies the item.
	alone  bool
	flight *Response

	rejected   string
	again      string // version resent once because of a placeholder
	detail     string
	faults     []Fault
	reported   bool
	quarantine *quarantine
	retry      time.Time
}

// Response is one message to send.
type Response struct {
	Type  resource.Type
	Nonce string
	// Version is system_version_info; in state of the world, version_info.
	Version string
	Upserts []*cache.Entry
	Removed []string // empty in state of the world
	At      time.Time

	parts []part
	// carried are clusters whose version differs from the previous state-of-the-world response,
	// although they have not changed.
	carried []*cache.Entry
}

type part struct {
	it    *item
	entry *cache.Entry
}

// New starts a stream. Close closes the cursor.
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

func (s *Stream) Close() { s.cursor.Close(s.subscribed.all, s.held.all) }

// NextFlush returns when to call Flush if nothing else happens; zero: never.
func (s *Stream) NextFlush() time.Time { return s.nextFlush }

func (s *Stream) pull(now time.Time) {
	d := s.cursor.Pull()
	for _, c := range d.Changes {
		if s.items[c.Slot.Type][c.Slot] != nil || !s.interested(c.Slot) {
			continue
		}
		if it := s.newItem(c.Slot); s.held.has(c.Slot.ID) {
			// If c.Prev is nil, the proxy may have a version that is newer than the last pull.
			it.have, it.stale = c.Prev, d.Reset || c.Prev == nil
		}
	}
	for _, c := range d.Changes { // the desired version depends on all items of the first loop
		if it := s.items[c.Slot.Type][c.Slot]; it != nil {
			s.setWant(it, c.Entry, now)
		}
	}
	if d.Reset {
		s.resumedAt = now
		s.findRemoved(now)
	}
}

func (s *Stream) findRemoved(now time.Time) {
	for id := range s.held.all {
		slot := s.cursor.Slot(id)
		if slot.Current() != nil {
			continue
		}
		it := s.items[slot.Type][slot]
		if it == nil {
			it = s.newItem(slot)
			it.stale = true
		}
		s.setWant(it, nil, now)
	}
}

func (s *Stream) interested(slot *cache.Slot) bool {
	return s.wildcard[slot.Type] || s.subscribed.has(slot.ID) || s.held.has(slot.ID)
}

func (s *Stream) newItem(slot *cache.Slot) *item {
	it := &item{slot: slot}
	s.items[slot.Type][slot] = it
	return it
}

// A held name without an item is assumed to be up to date at the proxy.
func (s *Stream) itemOf(slot *cache.Slot) *item {
	it := s.items[slot.Type][slot]
	if it == nil {
		it = s.newItem(slot)
		if current := slot.Current(); s.held.has(slot.ID) {
			if current == nil || current.Seq <= s.cursor.Seq() {
				it.have = current
			} else {
				it.stale = true
			}
			it.want = current
		}
	}
	return it
}

func (s *Stream) setWant(it *item, want *cache.Entry, now time.Time) {
	slot := it.slot
	if want == nil {
		switch {
		case it.now, slot.Type == resource.Endpoints && slot.Named() && s.interested(slot):
			// Envoy accepts empty endpoints as a response, but ignores a removal.
			want = cache.Placeholder(slot)
		case slot.Type == resource.Endpoints && it.have != nil && s.subscribed.has(slot.ID) &&
			len(s.missingHops(it.have)) > 0:
			// The starting proxy got endpoints before the internal listeners that they name, which
			// no longer exist.
			want = withoutHops(it.have, s.missingHops(it.have))
		case it.have == nil && !it.stale && it.flight == nil, slot.Type == resource.Secret:
			s.drop(it) // nothing to remove, or a secret, which stays until Envoy unsubscribes
			return
		}
	}
	it.want, it.idle = want, time.Time{}
	if it.quarantine != nil && want != nil && want.Version == it.rejected {
		return
	}
	it.quarantine = nil
	switch {
	case want == nil:
		// Without a wildcard subscription, Envoy itself drops a resource that no other resource
		// names.
		s.dirty(it, it.now || s.wildcard[slot.Type], now)
	case it.flight != nil && it.inFlight() != nil && it.inFlight().Version == want.Version:
		it.dirty = false
	case it.flight == nil && it.have != nil && !it.stale && it.have.Version == want.Version && !it.now &&
		!s.suspects.has(slot.ID):
		it.have = want
		s.accept(it)
	case want.Version == it.rejected:
		it.dirty = false
	default:
		// A route configuration of expectRoutes waits for the proxy's subscription.
		s.dirty(it, s.interested(slot), now)
	}
}

func (s *Stream) dirty(it *item, dirty bool, now time.Time) {
	if dirty && !it.dirty {
		it.since = now
	}
	it.dirty = dirty
}

func (it *item) inFlight() *cache.Entry {
	for _, p := range it.flight.parts {
		if p.it == it {
			return p.entry
		}
	}
	return nil
}

func (it *item) lastSent() *cache.Entry {
	if it.flight != nil {
		return it.inFlight()
	}
	return it.have
}

func sameVersion(a, b *cache.Entry) bool {
	return a == b || a != nil && b != nil && a.Version == b.Version
}

func (s *Stream) accept(it *item) {
	s.clearRejection(it)
	it.dirty, it.alone = false, false
	if e := it.slot.Current(); e != nil && e.Seq <= s.cursor.Seq() {
		s.drop(it) // without an item, the proxy is assumed to be up to date
	}
}

func (s *Stream) clearRejection(it *item) {
	if it.detail != "" {
		s.rejectionsSeq++
	}
	it.detail, it.rejected, it.faults, it.quarantine, it.reported = "", "", nil, nil, false
}

func (s *Stream) drop(it *item) {
	if it.detail != "" {
		s.rejectionsSeq++
	}
	delete(s.items[it.slot.Type], it.slot)
}

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

// Rejection is a rejected resource, or a rejected part of it.
type Rejection struct {
	Ref     resource.Ref
	Version string
	// Host and Route name a rejected part of a route configuration; the other parts are in force.
	// Route is "" if the whole virtual host is rejected.
	Host, Route string
	// Member is the member of a cluster set whose certificates are rejected.
	Member  string
	Message string
	Owners  []report.Ref
}

// Rejections lists the resources whose newest version the proxy rejects, sorted by type. Their
// previous versions stay in force.
func (s *Stream) Rejections() []Rejection {
	var out []Rejection
	for t := range s.items {
		for _, it := range s.items[t] {
			r := Rejection{Ref: it.slot.Ref, Version: it.rejected, Message: it.detail}
			switch {
			case it.detail == "" || it.isSearched():
				continue
			case it.faults != nil:
				for _, f := range it.faults {
					r.Host, r.Route, r.Member, r.Message, r.Owners = f.Host, f.Route, f.Member, f.Message, f.Owners
					out = append(out, r)
				}
				continue
			case it.want != nil:
				r.Owners = it.want.Owners()
				if e := it.slot.Current(); sameVersion(e, it.want) {
					r.Owners = e.Owners()
				}
			}
			out = append(out, r)
		}
	}
	return out
}

func (it *item) isSearched() bool {
	return it.quarantine != nil && it.faults == nil && !it.reported && it.quarantine.isSearch()
}

// RejectionsSeq changes whenever Rejections may have changed.
func (s *Stream) RejectionsSeq() uint64 { return s.rejectionsSeq }

// Rejected returns the rejected version of a resource and Envoy's error detail.
func (s *Stream) Rejected(slot *cache.Slot) (version, detail string) {
	if it := s.items[slot.Type][slot]; it != nil && it.detail != "" {
		return it.rejected, it.detail
	}
	return "", ""
}

// Undecided reports whether the proxy has neither acknowledged nor rejected a resource.
func (s *Stream) Undecided(ref resource.Ref) bool {
	slot := s.cursor.Acquire(ref.Type, ref.Name)
	defer s.cursor.Release(slot)
	it := s.items[slot.Type][slot]
	switch {
	case it != nil && it.detail != "":
		return it.isSearched()
	case slot.Current() == nil, s.Accepted(slot) != nil:
		return false
	case it != nil && (it.dirty || it.flight != nil), s.first[slot.Type]:
		return true
	}
	return !s.Settled()
}

// Started reports whether the proxy has requested its clusters and listeners.
func (s *Stream) Started() bool { return !s.first[resource.Cluster] && !s.first[resource.Listener] }

// Settled reports whether the proxy has acknowledged or rejected all desired resources.
func (s *Stream) Settled() bool {
	if !s.Started() || !s.resumedAt.IsZero() && s.first[resource.RouteConfiguration] || len(s.unacked) > 0 {
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

// Accepted returns the version that the proxy accepted last and still has, or nil.
func (s *Stream) Accepted(slot *cache.Slot) *cache.Entry {
	if it := s.items[slot.Type][slot]; it != nil {
		return it.have
	}
	if e := slot.Current(); e != nil && s.held.has(slot.ID) && e.Seq <= s.cursor.Seq() {
		return e
	}
	return nil
}

// Lag reports whether the ACK of a desired resource is missing (behind), and whether the proxy
// rejects a resource.
func (s *Stream) Lag() (behind, rejecting bool) {
	for t := range s.items {
		for _, it := range s.items[t] {
			rejecting = rejecting || it.detail != ""
			behind = behind || it.detail == "" && it.want != nil && (it.dirty || it.flight != nil)
		}
	}
	return behind, rejecting
}

// Summary counts the names of one type by state.
type Summary struct {
	Held     int    `json:"held"`    // names at the proxy
	Pending  int    `json:"pending"` // names in flight or to be sent
	Leaving  int    `json:"leaving"` // pending removals
	Rejected int    `json:"rejected"`
	LastNack string `json:"lastNack,omitempty"`
}

// InSync reports whether the proxy has all desired resources of a type.
func (s Summary) InSync() bool { return s.Pending == 0 && s.Rejected == 0 }

func (s *Stream) Summaries() []Summary {
	out := make([]Summary, types)
	for id := range s.held.all {
		out[s.cursor.Slot(id).Type].Held++
	}
	for t := range s.items {
		out[t].LastNack = s.lastNack[t]
		for _, it := range s.items[t] {
			switch {
			case it.detail != "":
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

func (s *Stream) respond(t resource.Type, parts []part, now time.Time) *Response {
	s.nonce++
	r := &Response{Type: t, Nonce: strconv.FormatUint(s.nonce, 36), At: now, parts: parts}
	for _, p := range parts {
		p.it.flight, p.it.dirty, p.it.now = r, !sameVersion(p.entry, p.it.want), false
		if p.entry == nil {
			r.Removed = append(r.Removed, p.it.slot.Name)
			s.chainGone(p.it.have, nil, now)
			delete(s.accepted, p.it.slot)
			delete(s.carried, p.it.slot)
			// The proxy drops its version, so no resource may rely on it.
			p.it.have, p.it.stale = nil, false
			s.clearRejection(p.it) // a new resource of this name must not count as rejected
			continue
		}
		s.hold(p.it.slot)
		r.Upserts = append(r.Upserts, p.entry)
		if t == resource.Secret {
			s.sent.set(p.it.slot.ID)
		}
	}
	s.unacked = append(s.unacked, r)
	if s.config.StateOfTheWorld {
		s.completeState(r)
	}
	return r
}
