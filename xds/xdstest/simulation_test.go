package xdstest

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/publish"
)

// Simulation is a fake Envoy and the state machine of its stream, without network, goroutines or
// clock. A random source chooses the next event, so that its seed replays any race. It is not safe
// for concurrent use.
type Simulation struct {
	*Fake
	// Now advances only when nothing else can happen.
	Now time.Time

	config  publish.Config
	machine *publish.Stream
	session *session
	up      []request
	down    []*publish.Response
}

// Simulate connects a fake Envoy to a cache. FakeConfig's Address and Timeout are ignored.
func Simulate(t testing.TB, f FakeConfig, store *cache.Cache, c publish.Config) *Simulation {
	t.Helper()
	c.StateOfTheWorld = f.StateOfTheWorld
	s := &Simulation{Fake: &Fake{config: f, t: t, state: newProxy()}, Now: time.Unix(1000, 0), config: c}
	s.Connect(store)
	t.Cleanup(func() { s.machine.Close() })
	return s
}

// Connect connects the fake to a control plane. Messages in flight are lost.
func (s *Simulation) Connect(store *cache.Cache) {
	if s.machine != nil {
		s.machine.Close()
	}
	s.up, s.down = nil, nil
	s.machine = publish.New(store.Open(Gateway, ""), s.config)
	s.state.restart()
	s.session = &session{fake: s.Fake, wire: (*simulatedWire)(s),
		node: &corev3.Node{Id: s.Fake.config.Node, Cluster: Gateway}}
	s.session.start()
}

// Step executes a random event. It returns false if no event is possible.
func (s *Simulation) Step(r *rand.Rand) bool {
	switch n := r.IntN(3); {
	case n == 0 && len(s.up) > 0:
		q := s.up[0]
		s.up = s.up[1:]
		s.handle(q)
	case n == 1 && len(s.down) > 0:
		resp := s.down[0]
		s.down = s.down[1:]
		s.session.locked(func() { s.session.take(s.received(resp)) })
	default:
		out := s.machine.Flush(s.Now)
		s.down = append(s.down, out...)
		return len(out)+len(s.up)+len(s.down) > 0
	}
	return true
}

// Settle runs all events. Then a missing response is a violation.
func (s *Simulation) Settle(r *rand.Rand) {
	for range 100_000 {
		if s.Step(r) || len(s.up)+len(s.down) > 0 {
			continue
		}
		out := s.machine.Flush(s.Now)
		s.down = append(s.down, out...)
		if next := s.machine.NextFlush(); len(out) == 0 && next.After(s.Now) {
			s.Now = next
		} else if len(out) == 0 {
			s.session.locked(s.session.expire)
			return
		}
	}
	s.violate("events without end")
}

func (s *Simulation) StateOfTheWorld() bool { return s.config.StateOfTheWorld }

func (s *Simulation) Node() string { return s.Fake.config.Node }

func (s *Simulation) Stream() *publish.Stream { return s.machine }

func (s *Simulation) handle(q request) {
	if s.config.StateOfTheWorld {
		s.machine.HandleState(publish.StateRequest{
			Type: q.t, Names: q.all, Version: q.version, Nonce: q.nonce, Error: q.nack,
		}, s.Now)
		return
	}
	s.machine.Handle(publish.Request{
		Type: q.t, Subscribe: slices.Values(q.subscribe), Unsubscribe: slices.Values(q.unsubscribe),
		Initial: maps.All(q.initial), Nonce: q.nonce, Error: q.nack,
	}, s.Now)
}

func (s *Simulation) received(r *publish.Response) response {
	out := response{t: r.Type, nonce: r.Nonce, version: r.Version, removed: slices.Clone(r.Removed),
		full: s.config.StateOfTheWorld && wildcard(r.Type)}
	for _, e := range r.Upserts {
		out.resources = append(out.resources, received{name: e.Name, version: e.Version,
			body: &anypb.Any{TypeUrl: e.Type.URL(), Value: e.Body()}})
	}
	return out
}

type simulatedWire Simulation

func (w *simulatedWire) send(q request) error {
	w.up = append(w.up, q)
	return nil
}

// receive is never called: Step passes the responses.
func (w *simulatedWire) receive() (response, error) { select {} }
