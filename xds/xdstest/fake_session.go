package xdstest

import (
	"context"
	"maps"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/penstock-project/penstock/xds/resource"
)

type session struct {
	fake *Fake
	wire adsWire
	node *corev3.Node
	open [5]bool
	// Envoy withholds answers to clusters until all clusters are warm.
	withheld []request
	since    time.Time
}

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
	tick := time.NewTicker(s.fake.config.Timeout / 10)
	defer tick.Stop()
	s.start()
	for {
		select {
		case r, ok := <-responses:
			if !ok {
				return
			}
			s.locked(func() { s.take(r) })
		case <-tick.C:
			s.locked(func() {
				if time.Since(s.since) >= s.fake.config.Timeout {
					s.expire()
				}
			})
		case <-ctx.Done():
			return
		}
	}
}

func (s *session) start() {
	s.locked(func() {
		s.ask(request{t: resource.Cluster})
		s.follow()
		s.release()
	})
}

func (s *session) locked(f func()) {
	s.fake.mu.Lock()
	defer s.fake.mu.Unlock()
	f()
}

func (s *session) ask(q request) {
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
		for ref := range p.subscribed {
			if ref.Type == q.t {
				q.subscribe = append(q.subscribe, ref.Name)
			}
		}
		slices.Sort(q.subscribe)
	}
	for ref := range p.subscribed {
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

func (s *session) take(r response) {
	f, p := s.fake, &s.fake.state
	rec := Received{Type: r.t, Removed: r.removed}
	verdicts := map[string]*verdict{}
	var bad []string
	messages := make([]*applied, len(r.resources))
	for i, res := range r.resources {
		ref := resource.Ref{Type: r.t, Name: res.name}
		if slices.Contains(rec.Upserts, res.name) {
			f.violate("%s is twice in one response", ref)
		}
		rec.Upserts = append(rec.Upserts, res.name)
		if v, has := p.has(ref); has && v == res.version && p.warming[res.name] == nil {
			rec.Same = append(rec.Same, res.name)
		}
		msg, names := read(r.t, res.body)
		messages[i] = &applied{version: res.version, names: names, ports: ports(msg)}
		v := f.config.judge(ref, msg)
		switch r.t {
		case resource.Secret:
			s := storedSecret{hashOf(res.body), v != nil}
			if p.stored[ref].hash == s.hash || !p.subscribed[ref] {
				v, messages[i] = nil, nil // Envoy ACKs the same bytes without validation
				break
			}
			p.stored[ref], messages[i].body = s, res.body.GetValue()
		case resource.Listener:
			for _, n := range names {
				if at, _ := p.has(ref); p.stored[n].rejected && at != res.version {
					v = &verdict{text: "Failed to load certificate chain from <inline>"}
				}
			}
		}
		if v != nil {
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
		if ref := (resource.Ref{Type: r.t, Name: n}); p.active[ref] == nil || p.unacked[ref] && p.accepted[ref] == "" {
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
	s.release()
}

// Removals come last, because an added listener may have a removed listener's port.
func (s *session) applyGood(r response, messages []*applied, verdicts map[string]*verdict) {
	f, p := s.fake, &s.fake.state
	there := map[string]bool{}
	for i, res := range r.resources {
		there[res.name] = true
		ref := resource.Ref{Type: r.t, Name: res.name}
		if verdicts[res.name] != nil || messages[i] == nil {
			continue
		}
		if !wildcard(r.t) && !p.subscribed[ref] {
			continue
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

func wildcard(t resource.Type) bool { return t == resource.Cluster || t == resource.Listener }

func (s *session) accept(r response) {
	p := &s.fake.state
	for _, res := range r.resources {
		ref := resource.Ref{Type: r.t, Name: res.name}
		if !wildcard(r.t) && !p.subscribed[ref] {
			continue // Envoy drops a resource that it has unsubscribed meanwhile
		}
		p.accepted[ref] = res.version
	}
	for _, n := range r.removed {
		delete(p.accepted, resource.Ref{Type: r.t, Name: n})
	}
	p.state[r.t] = r.version
}

func (s *session) follow() {
	p := &s.fake.state
	for _, t := range byName {
		want := p.wanted(t)
		q := request{t: t}
		for name := range want {
			ref := resource.Ref{Type: t, Name: name}
			if !p.subscribed[ref] {
				p.subscribed[ref], p.unanswered[ref] = true, true
				q.subscribe = append(q.subscribe, name)
			}
		}
		for ref := range p.subscribed {
			if ref.Type == t && !want[ref.Name] {
				delete(p.subscribed, ref)
				delete(p.unanswered, ref)
				delete(p.active, ref)
				delete(p.accepted, ref)
				delete(p.stored, ref)
				q.unsubscribe = append(q.unsubscribe, ref.Name)
			}
		}
		slices.Sort(q.subscribe)
		slices.Sort(q.unsubscribe)
		returning := !s.open[t] && len(p.subscribed) > 0
		if len(q.subscribe)+len(q.unsubscribe) > 0 || returning {
			s.ask(q)
		}
	}
}

func (s *session) answer(r response, nack string) {
	q := request{t: r.t, nonce: r.nonce, nack: nack}
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

func (s *session) release() {
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
		s.ask(request{t: resource.Listener})
	}
}

func (s *session) expire() {
	f, p := s.fake, &s.fake.state
	if len(p.warming)+len(p.unanswered) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(p.warming)) {
		f.violate("cluster %s still warms: its endpoints were not sent behind it", name)
		p.active[resource.Ref{Type: resource.Cluster, Name: name}] = p.warming[name]
	}
	for ref := range p.unanswered {
		f.violate("%s was requested and never answered", ref)
	}
	clear(p.warming)
	clear(p.unanswered)
	s.release()
}
