package xdstest

import (
	"context"
	"maps"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/penstock-project/penstock/xds/resource"
)

// session is one stream of a Fake: the main thread of an Envoy, as far as ADS is concerned.
type session struct {
	fake *Fake
	wire adsWire
	node *corev3.Node // until it was sent
	open [5]bool      // types that were asked for on this stream
	// withheld are the answers to clusters, which wait for all of them to be warm.
	withheld []question
	since    time.Time // when it began to wait for something
}

// byName are the types that are subscribed to by name, with whom they follow from.
var byName = []resource.Type{resource.Endpoints, resource.RouteConfiguration, resource.Secret}

func (s *session) run(ctx context.Context) {
	responses := make(chan response)
	go func() {
		defer close(responses)
		for {
			r, err := s.wire.receive()
			if err != nil {
				return
			}
			select {
			case responses <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	patience := time.NewTicker(s.fake.config.Patience / 10)
	defer patience.Stop()
	s.start()
	for {
		select {
		case r, ok := <-responses:
			if !ok {
				return
			}
			s.locked(func() { s.take(r) })
		case <-patience.C:
			s.locked(func() {
				if time.Since(s.since) >= s.fake.config.Patience {
					s.complain()
				}
			})
		case <-ctx.Done():
			return
		}
	}
}

// start asks for what every stream begins with.
func (s *session) start() {
	s.locked(func() {
		s.ask(question{t: resource.Cluster})
		s.follow()
		s.released()
	})
}

func (s *session) locked(f func()) {
	s.fake.mu.Lock()
	defer s.fake.mu.Unlock()
	f()
}

// ask sends a question, completed by what every first one of its type says. A stream that is gone is noticed by run.
func (s *session) ask(q question) {
	p := &s.fake.state
	q.node, s.node = s.node, nil
	if !s.open[q.t] {
		s.open[q.t] = true
		q.initial = map[string]string{}
		for ref, v := range p.accepted {
			if ref.Type == q.t {
				q.initial[ref.Name] = v
			}
		}
		q.subscribe = nil
		for ref := range p.asked {
			if ref.Type == q.t {
				q.subscribe = append(q.subscribe, ref.Name)
			}
		}
		slices.Sort(q.subscribe)
	}
	for ref := range p.asked {
		if ref.Type == q.t {
			q.all = append(q.all, ref.Name)
		}
	}
	slices.Sort(q.all)
	if q.version == "" {
		q.version = p.state[q.t]
	}
	_ = s.wire.send(q)
}

// take applies one response and answers it.
func (s *session) take(r response) {
	f, p := s.fake, &s.fake.state
	rec := Received{Type: r.t, Removed: r.removed}
	verdicts := map[string]*verdict{}
	var bad []string
	messages := make([]*applied, len(r.resources))
	for i, res := range r.resources {
		ref := resource.Ref{Type: r.t, Name: res.name}
		if slices.Contains(rec.Upserts, res.name) {
			f.violate("%s twice in one response", ref)
		}
		rec.Upserts = append(rec.Upserts, res.name)
		if v, has := p.has(ref); has && v == res.version && p.warming[res.name] == nil {
			rec.Same = append(rec.Same, res.name)
		}
		msg, names := read(r.t, res.body)
		messages[i] = &applied{version: res.version, names: names, ports: ports(msg)}
		if v := f.config.judge(ref, msg); v != nil {
			verdicts[res.name] = v
			bad = append(bad, res.name)
			if v.whole {
				rec.Rejected = v.text
			}
		}
	}
	if rec.Rejected == "" {
		if len(bad) > 0 {
			rec.Rejected = partial(r.t, bad, verdicts)
		}
		s.applyGood(r, messages, verdicts)
	}
	for _, n := range bad {
		if ref := (resource.Ref{Type: r.t, Name: n}); p.active[ref] == nil {
			p.rejected[ref] = true
		}
	}
	for _, n := range append(slices.Clone(rec.Upserts), rec.Removed...) {
		delete(p.unanswered, resource.Ref{Type: r.t, Name: n})
	}
	f.log = append(f.log, rec)
	p.initialized = p.initialized || r.t == resource.Cluster
	if rec.Rejected == "" {
		s.accept(r)
	}
	s.follow()
	s.answer(r, rec.Rejected)
	s.released()
}

// applyGood applies what is good in a response that is not refused as a whole. Removals come last, so that an added
// listener may take a removed one's place.
func (s *session) applyGood(r response, messages []*applied, verdicts map[string]*verdict) {
	f, p := s.fake, &s.fake.state
	there := map[string]bool{}
	for i, res := range r.resources {
		there[res.name] = true
		ref := resource.Ref{Type: r.t, Name: res.name}
		if verdicts[res.name] != nil {
			continue
		}
		if !wildcard(r.t) && !p.asked[ref] {
			continue // nobody listens
		}
		p.apply(ref, messages[i])
	}
	removed := r.removed
	if r.full {
		for _, n := range p.names(r.t) {
			if !there[n] {
				removed = append(removed, n)
			}
		}
		for n := range p.warming {
			if r.t == resource.Cluster && !there[n] {
				removed = append(removed, n)
			}
		}
	}
	for _, n := range removed {
		p.remove(resource.Ref{Type: r.t, Name: n})
	}
	for _, b := range p.broken() {
		if !slices.Contains(f.violations, b) {
			f.violate("%s", b)
		}
	}
}

// wildcard are the types that are subscribed to as a whole.
func wildcard(t resource.Type) bool { return t == resource.Cluster || t == resource.Listener }

func (s *session) accept(r response) {
	p := &s.fake.state
	for _, res := range r.resources {
		p.accepted[resource.Ref{Type: r.t, Name: res.name}] = res.version
	}
	for _, n := range r.removed {
		delete(p.accepted, resource.Ref{Type: r.t, Name: n})
	}
	p.state[r.t] = r.version
}

// follow subscribes to the names that follow from what is in force, and unsubscribes from the others: before the answer
// to what made them follow.
func (s *session) follow() {
	p := &s.fake.state
	for _, t := range byName {
		want := p.wanted(t)
		q := question{t: t}
		for name := range want {
			ref := resource.Ref{Type: t, Name: name}
			if !p.asked[ref] {
				p.asked[ref], p.unanswered[ref] = true, true
				q.subscribe = append(q.subscribe, name)
			}
		}
		for ref := range p.asked {
			if ref.Type == t && !want[ref.Name] {
				delete(p.asked, ref)
				delete(p.unanswered, ref)
				delete(p.active, ref)
				delete(p.accepted, ref)
				q.unsubscribe = append(q.unsubscribe, ref.Name)
			}
		}
		slices.Sort(q.subscribe)
		slices.Sort(q.unsubscribe)
		returning := !s.open[t] && len(p.asked) > 0
		if len(q.subscribe)+len(q.unsubscribe) > 0 || returning {
			s.ask(q)
		}
	}
}

// answer ACKs or NACKs; for clusters when all are warm.
func (s *session) answer(r response, nack string) {
	q := question{t: r.t, nonce: r.nonce, nack: nack}
	if nack == "" {
		q.version = r.version
	}
	if slices.Contains(s.fake.config.Silent, r.t) {
		return
	}
	if r.t == resource.Cluster {
		s.withheld = append(s.withheld, q)
		return
	}
	s.ask(q)
}

// released does what waits for all clusters to be warm.
func (s *session) released() {
	p := &s.fake.state
	if len(p.warming)+len(p.unanswered) == 0 || s.since.IsZero() {
		s.since = time.Now()
	}
	if len(p.warming) > 0 {
		return
	}
	for _, q := range s.withheld {
		s.ask(q)
	}
	s.withheld = nil
	if !s.open[resource.Listener] && p.initialized {
		p.listening = true
		s.ask(question{t: resource.Listener})
	}
}

// complain notes what the control plane owes for too long, and goes on as Envoy does after initial_fetch_timeout.
func (s *session) complain() {
	f, p := s.fake, &s.fake.state
	if len(p.warming)+len(p.unanswered) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(p.warming)) {
		f.violate("cluster %s still warms: its endpoints did not come behind it", name)
		p.active[resource.Ref{Type: resource.Cluster, Name: name}] = p.warming[name]
	}
	for ref := range p.unanswered {
		f.violate("%s was asked for and never answered", ref)
	}
	clear(p.warming)
	clear(p.unanswered)
	s.released()
}
