package channel

import (
	"slices"
	"strconv"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
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

// Register adds the service to a gRPC server. Whoever that server lets in may follow.
func (c *Channel) Register(g grpc.ServiceRegistrar) {
	d := stream
	d.Handler = func(_ any, s grpc.ServerStream) error { return c.serve(&serverStream{ServerStream: s}) }
	g.RegisterService(&grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{d}}, c)
}

// follower is one process that reads here. Guarded by Channel.mu.
type follower struct {
	id        string // Channel.id of that process
	following map[string]*following
	wake      chan struct{}
}

func (f *follower) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// following is one topic of a follower.
type following struct {
	begun       bool
	sent, acked uint64 // Topic.seq
	sentAt      time.Time
	known       map[string]bool
}

// serve is one follower, from its first message to its end.
func (c *Channel) serve(s *serverStream) error {
	f := &follower{following: map[string]*following{}, wake: make(chan struct{}, 1)}
	c.mu.Lock()
	c.followers[f] = struct{}{}
	for _, p := range c.peers {
		if p.conn != nil && !p.connected() { // one that was away has come back: do not wait to dial it
			p.conn.ResetConnectBackoff()
		}
	}
	c.mu.Unlock()
	defer c.leave(f)
	failed := make(chan error, 1)
	go func() { // ends with the stream
		for {
			r, err := s.Recv()
			if err != nil {
				failed <- err
				return
			}
			c.receive(f, r)
		}
	}()
	for {
		for _, r := range c.news(f) {
			if err := s.Send(r); err != nil {
				return err
			}
		}
		select {
		case <-f.wake:
		case <-failed:
			return nil // it is gone, as processes go
		}
	}
}

func (c *Channel) leave(f *follower) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.followers, f)
	for _, t := range c.topics {
		t.acknowledged()
	}
}

// acknowledged wakes those who wait for followers. Channel.mu is held.
func (t *Topic) acknowledged() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// receive takes in that a follower wants a topic, or has heard of it. A topic that is not known here is one of a newer
// version's: it stays silent.
func (c *Channel) receive(f *follower, r *request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.topics[r.GetTypeUrl()]
	if t == nil {
		return
	}
	g := f.following[t.name]
	if g == nil {
		f.id = r.GetNode().GetId()
		f.following[t.name] = &following{known: map[string]bool{}}
	} else if seq, err := strconv.ParseUint(r.GetResponseNonce(), 10, 64); err == nil && seq == g.sent {
		g.acked = seq
		t.acknowledged()
	}
	f.poke()
}

// news is what a follower has to be told, a response a topic.
func (c *Channel) news(f *follower) (out []*response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for name, g := range f.following {
		t := c.topics[name]
		if g.begun && (g.acked < g.sent || t.seq == g.sent) {
			continue
		}
		r := &response{TypeUrl: name, SystemVersionInfo: c.id, Nonce: strconv.FormatUint(t.seq, 10)}
		for fact, is := range t.facts {
			if is.seq <= g.sent && g.begun || !is.until.IsZero() && !is.until.After(now) {
				continue
			}
			r.Resources = append(r.Resources, is.encode(fact, now))
			g.known[fact] = true
		}
		for fact := range g.known {
			if _, ok := t.facts[fact]; !ok {
				r.RemovedResources = append(r.RemovedResources, fact)
				delete(g.known, fact)
			}
		}
		slices.Sort(r.RemovedResources)
		g.begun, g.sent, g.sentAt = true, t.seq, now
		out = append(out, r)
	}
	return out
}

func (t told) encode(name string, now time.Time) *discoveryv3.Resource {
	r := &discoveryv3.Resource{Name: name}
	if !t.until.IsZero() {
		r.Ttl = durationpb.New(t.until.Sub(now))
	}
	if len(t.body) > 0 {
		r.Resource, _ = anypb.New(wrapperspb.Bytes(t.body)) // always encodes
	}
	return r
}

func decode(r *discoveryv3.Resource) (Fact, error) {
	f := Fact{Name: r.GetName(), TTL: r.GetTtl().AsDuration()}
	if r.GetResource() == nil {
		return f, nil
	}
	var body wrapperspb.BytesValue
	err := r.GetResource().UnmarshalTo(&body)
	f.Body = body.GetValue()
	return f, err
}
