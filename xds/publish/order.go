package publish

import (
	"slices"
	"strings"
	"time"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

type gate func(*Stream, *item, time.Time) (bool, time.Time)

type stage struct {
	t resource.Type
	// If both are set, one response has upserts and removals.
	upsert, remove gate
	// single means one resource in each response, so that the nonce identifies it.
	single bool
	window int
}

var stages = []stage{
	// Clusters need their secrets to become warm. The removal of a secret only answers a request.
	{t: resource.Secret, upsert: secretReady, remove: always, window: 16},
	{t: resource.Cluster, upsert: clusterReady, window: 4},
	// Envoy withholds the ACK of a changed cluster until its endpoints arrive again.
	{t: resource.Endpoints, upsert: endpointsReady, window: 16},
	// An added and a removed listener with the same port must be in one response.
	{t: resource.Listener, upsert: routesReady, remove: unused, window: 16},
	{t: resource.RouteConfiguration, upsert: routesReady, single: true},
	{t: resource.Cluster, remove: unused, window: 16},
}

// Flush returns all responses that may be sent now, in order. It never blocks.
func (s *Stream) Flush(now time.Time) []*Response {
	s.pull(now)
	s.nextFlush = time.Time{}
	s.expireDrains(now)
	s.retry(now)
	s.releaseHops(now)
	var out []*Response
	for i := range stages {
		out = append(out, s.run(&stages[i], now)...)
	}
	for t := range s.unanswered {
		if s.unanswered[t] && len(s.items[t]) == 0 {
			out = append(out, s.respond(resource.Type(t), nil, now))
			s.unanswered[t] = false
		}
	}
	return out
}

func (s *Stream) run(st *stage, now time.Time) []*Response {
	if len(s.items[st.t]) == 0 || st.window > 0 && s.window(st.t) >= st.window {
		return nil
	}
	s.calm = s.isCalm()
	var together, alone, removals []*item
	held := false
	for _, it := range s.items[st.t] {
		switch {
		case !it.dirty:
		case it.want == nil:
			removals = append(removals, it)
		case st.upsert == nil:
			// A state-of-the-world response has all clusters. A removal would revert a cluster that
			// is due again after a NACK.
			held = held || s.config.StateOfTheWorld
		case !s.passes(st.upsert, it, now):
			held = true
		case it.alone || st.single || it.quarantine != nil:
			alone = append(alone, it)
		default:
			together = append(together, it)
		}
	}
	for _, it := range removals {
		// Removals wait for delayed upserts: a removed listener may have the port of an added
		// listener.
		if st.remove != nil && !held && s.passes(st.remove, it, now) {
			together = append(together, it)
		}
	}
	var out []*Response
	if len(together) > 0 {
		out = append(out, s.respond(st.t, s.parts(now, together...), now))
	}
	for _, it := range sorted(alone) {
		if s.config.StateOfTheWorld && wildcardTypes[st.t] && s.window(st.t) > 0 {
			break // one response has all resources of the type
		}
		out = append(out, s.respond(st.t, s.parts(now, it), now))
	}
	if st.t == resource.Cluster && st.upsert != nil {
		for _, r := range out {
			s.endpointsAgain(r, now)
		}
	}
	if len(out) > 0 {
		s.unanswered[st.t] = false
	}
	return out
}

func (s *Stream) passes(g gate, it *item, now time.Time) bool {
	ok, until := g(s, it, now)
	if !ok {
		s.flushAt(until)
	}
	return ok
}

func (s *Stream) flushAt(t time.Time) {
	if !t.IsZero() && (s.nextFlush.IsZero() || t.Before(s.nextFlush)) {
		s.nextFlush = t
	}
}

func (s *Stream) window(t resource.Type) int {
	n := 0
	for _, r := range s.unacked {
		if r.Type == t {
			n++
		}
	}
	return n
}

func sorted(items []*item) []*item {
	slices.SortFunc(items, func(a, b *item) int { return strings.Compare(a.slot.Name, b.slot.Name) })
	return items
}

func (s *Stream) parts(now time.Time, items ...*item) []part {
	out := make([]part, len(items))
	for i, it := range sorted(items) {
		out[i] = part{it: it, entry: it.want}
		switch {
		case it.quarantine != nil:
			out[i].entry = it.quarantine.entry
		case it.slot.Type == resource.RouteConfiguration:
			out[i].entry = s.withUsedHosts(it, now)
		case it.slot.Type == resource.Secret && it.want != nil:
			out[i].entry = s.marked(it, now)
		}
		if it.now && it.want != nil && it.slot.Type == resource.Endpoints {
			// The previous endpoints warm the cluster until the internal listener is in force.
			if hop, _ := s.awaitsHop(it, now); hop {
				out[i].entry = it.lastSent()
			}
			if out[i].entry == nil {
				out[i].entry = withoutHops(it.want, s.hopsBehind(it, now))
			}
		}
	}
	return out
}

// endpointsAgain resends endpoints for which Envoy waits without a request: of modified clusters,
// and of new clusters that share a service_name. A resumed proxy first reports the endpoints that
// it has.
func (s *Stream) endpointsAgain(r *Response, now time.Time) {
	changed := r.carried
	for _, p := range r.parts {
		changed = append(changed, p.entry)
	}
	for _, e := range changed {
		for _, n := range e.Names {
			switch {
			case n.Type != resource.Endpoints:
			case s.subscribed.has(n.ID):
				s.resend(n, now)
			case s.first[resource.Endpoints]:
				s.owed[n] = true
			}
		}
	}
}

func (s *Stream) resend(n *cache.Slot, now time.Time) {
	it := s.itemOf(n)
	it.want = n.Current()
	if it.want == nil && !n.Named() {
		// The cluster is removed, or its new version is rejected; its old version still serves.
		if it.want = it.lastSent(); it.want != nil {
			it.want = withoutHops(it.want, s.missingHops(it.want))
		}
	}
	if it.want == nil {
		it.want = cache.Placeholder(n)
	}
	if it.rejected != "" && it.want != nil && it.want.Version == it.rejected {
		return
	}
	it.now = true
	s.dirty(it, true, now)
}

func (s *Stream) expireDrains(now time.Time) {
	for slot, until := range s.drain {
		if !now.Before(until) {
			delete(s.drain, slot)
		}
	}
}
