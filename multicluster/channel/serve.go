package channel

import (
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

type (
	request      = discoveryv3.DeltaDiscoveryRequest
	response     = discoveryv3.DeltaDiscoveryResponse
	serverStream = grpc.GenericServerStream[request, response]
	clientStream = grpc.GenericClientStream[request, response]
)

const (
	service = "penstock.v1alpha1.Replica"
	method  = "/" + service + "/Follow"
)

var stream = grpc.StreamDesc{StreamName: "Follow", ServerStreams: true, ClientStreams: true}

// Register adds the service to a gRPC server. Every client that the server admits may subscribe.
func (c *Channel) Register(g grpc.ServiceRegistrar) {
	d := stream
	d.Handler = func(_ any, s grpc.ServerStream) error { return c.serve(&serverStream{ServerStream: s}) }
	g.RegisterService(&grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{d}},
		c)
}

// subscriber is a process that subscribes to this process. Guarded by Channel.mu.
type subscriber struct {
	id     string
	name   string
	topics map[string]*subscription
	wake   chan struct{}
	idle   int
}

func (s *subscriber) flush() { flush(s.wake) }

func flush(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

type subscription struct {
	begun       bool
	made        bool   // first is set, or the topic has no snapshot
	first       []Item // used by the first response only
	sent, acked uint64 // Topic.seq of the last response that was sent, and acknowledged
	inFlight    bool
	sentAt      time.Time
	known       map[string]bool
	has         map[string]string // the subscriber's versions, until the first response
	nonce       string
	rest        []*response
}

func (s *subscription) busy() bool { return s.inFlight || len(s.rest) > 0 }

func (s *subscription) send(r *response, now time.Time) *response {
	s.begun, s.inFlight, s.sentAt, s.nonce = true, true, now, r.GetNonce()
	return r
}

func (c *Channel) serve(stream *serverStream) error {
	until := expires(stream.Context())
	if !until.IsZero() && !c.cfg.Now().Before(until) {
		return errExpired
	}
	name := ""
	if c.cfg.Identify != nil {
		var err error
		if name, err = c.cfg.Identify(stream.Context()); err != nil {
			return err
		}
	}
	s := &subscriber{name: name, topics: map[string]*subscription{}, wake: make(chan struct{}, 1)}
	c.mu.Lock()
	if name != "" && c.streamsOf(name) >= maxSubscribers {
		c.mu.Unlock()
		return status.Errorf(codes.ResourceExhausted, "%s has %d streams already", clip(name), maxSubscribers)
	}
	c.subscribers[s] = struct{}{}
	c.dialAgain()
	c.mu.Unlock()
	defer c.leave(s)
	expiry := make(chan error, 1)
	go func() { expiry <- c.untilExpiry(stream.Context(), until) }() // ends with the stream
	failed := make(chan error, 1)
	go func() { // ends with the stream
		failed <- c.guard("subscriber", func() error {
			for {
				r, err := stream.Recv()
				if err != nil {
					return err
				}
				if err := c.request(s, r); err != nil {
					return err
				}
			}
		})
	}()
	for {
		c.snapshots(s)
		for _, r := range c.responses(s) {
			if err := stream.Send(r); err != nil {
				return err
			}
		}
		select {
		case <-s.wake:
			if !Pause(stream.Context(), c.cfg.Debounce) {
				return nil
			}
		case err := <-expiry:
			return err
		case err := <-failed:
			if errors.Is(err, errUnsolicited) {
				return err
			}
			return nil
		}
	}
}

// The caller holds mu.
func (c *Channel) streamsOf(name string) (n int) {
	for s := range c.subscribers {
		if s.name == name {
			n++
		}
	}
	return n
}

func (c *Channel) leave(s *subscriber) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.subscribers, s)
	for name := range s.topics {
		if s.id != c.id {
			c.topics[name].subscribed.Add(-1)
		}
	}
	for _, t := range c.topics {
		t.notify()
	}
}

var errUnsolicited = status.Errorf(codes.InvalidArgument,
	"more than %d requests neither subscribe nor acknowledge a response", maxIdle)

// request subscribes to a topic, or acknowledges a response. It ignores topics that this release
// does not have.
func (c *Channel) request(s *subscriber, r *request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.topics[r.GetTypeUrl()]
	if t == nil {
		return s.unsolicited()
	}
	switch sub := s.topics[t.name]; {
	case sub == nil:
		s.id = cmp.Or(s.id, clip(r.GetNode().GetId()))
		sub := &subscription{known: map[string]bool{}}
		if t.resumes {
			sub.has = r.GetInitialResourceVersions()
			for key := range sub.has {
				sub.known[key] = true
			}
		}
		s.topics[t.name] = sub
		if s.id != c.id {
			t.subscribed.Add(1)
		}
	case sub.inFlight && r.GetResponseNonce() == sub.nonce:
		if sub.inFlight = false; len(sub.rest) == 0 {
			sub.acked = sub.sent
			t.notify()
		}
	default:
		return s.unsolicited()
	}
	s.flush()
	return nil
}

func (s *subscriber) unsolicited() error {
	if s.idle++; s.idle > maxIdle {
		return errUnsolicited
	}
	return nil
}

// snapshots calls Topic.snapshot, which may publish, without mu.
func (c *Channel) snapshots(s *subscriber) {
	c.mu.Lock()
	var begin []*Topic
	for name, sub := range s.topics {
		if sub.made {
			continue
		}
		if t := c.topics[name]; t.snapshot != nil && s.id != c.id {
			begin = append(begin, t)
		} else {
			sub.made = true
		}
	}
	c.mu.Unlock()
	for _, t := range begin {
		items := t.snapshot()
		c.mu.Lock()
		s.topics[t.name].first, s.topics[t.name].made = items, true
		c.mu.Unlock()
	}
}

func (c *Channel) responses(s *subscriber) (out []*response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for name, sub := range s.topics {
		t := c.topics[name]
		if !sub.inFlight && len(sub.rest) > 0 {
			out = append(out, sub.send(sub.rest[0], now))
			sub.rest = sub.rest[1:]
			continue
		}
		if !sub.made || sub.begun && (sub.inFlight || t.seq == sub.sent) {
			continue
		}
		r := &response{TypeUrl: name, SystemVersionInfo: c.id, Nonce: strconv.FormatUint(t.seq, 10)}
		for _, it := range sub.first {
			if _, ok := t.items[it.Key]; !ok && t.shows(s, it.Key) {
				r.Resources = append(r.Resources, published{value: it.Value}.encode(it.Key, now))
			}
		}
		sub.first = nil
		w := walk{t, s, sub, now, r}
		if edits, ok := t.since(sub.sent); ok && sub.begun {
			w.edited(edits)
		} else {
			w.all()
		}
		sub.has = nil
		slices.Sort(r.RemovedResources)
		if sub.begun && t.visible != nil && len(r.Resources) == 0 && len(r.RemovedResources) == 0 {
			sub.sent, sub.acked = t.seq, t.seq
			t.notify()
			continue
		}
		parts := split(r)
		sub.sent, sub.rest = t.seq, parts[1:]
		out = append(out, sub.send(parts[0], now))
	}
	return out
}

func (p published) encode(key string, now time.Time) *discoveryv3.Resource {
	r := &discoveryv3.Resource{Name: key, Version: p.version}
	if !p.expires.IsZero() {
		r.Ttl = durationpb.New(p.expires.Sub(now))
	}
	if len(p.value) > 0 {
		r.Resource = &anypb.Any{Value: p.value}
	}
	return r
}

func decode(r *discoveryv3.Resource) (Item, error) {
	it := Item{Key: r.GetName(), Value: r.GetResource().GetValue(), TTL: r.GetTtl().AsDuration()}
	if it.TTL < 0 {
		return it, fmt.Errorf("its time to live is %v", it.TTL)
	}
	return it, nil
}

func (c *Channel) guard(peer string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			if c.cfg.OnPanic != nil {
				c.cfg.OnPanic(peer, v, debug.Stack())
			}
			err = errors.New("handling the message panicked")
		}
	}()
	return f()
}
