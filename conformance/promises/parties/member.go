package parties

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/multicluster/federation/wiretest"
)

// Publisher is a member of a cluster set that sends a test's messages.
type Publisher struct {
	*CA
	Name     string
	Listener net.Listener
	Rounds   atomic.Int64 // number of calls of Begin's do that have returned
}

// NewPublisher makes a member that listens. Begin starts its server.
func NewPublisher(t testing.TB, name string) *Publisher {
	t.Helper()
	return &Publisher{CA: NewCA(t), Name: name, Listener: listen(t)}
}

// Subscriber is the stream of a process that subscribes to a Publisher.
type Subscriber struct {
	grpc.ServerStream
	acked map[string]chan struct{}
	nonce int
}

// Send sends items of a topic.
func (v *Subscriber) Send(topic string, items []*discoveryv3.Resource, gone ...string) error {
	v.nonce++
	return v.SendMsg(&discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: topic, SystemVersionInfo: "hostile", Nonce: fmt.Sprint(v.nonce), Resources: items,
		RemovedResources: gone,
	})
}

// Publish sends items of a topic in the largest possible parts. It sends each part after the
// acknowledgement of the part before.
func (v *Subscriber) Publish(topic string, items []*discoveryv3.Resource, gone ...string) error {
	v.nonce++
	for part := 0; ; part++ {
		r := &discoveryv3.DeltaDiscoveryResponse{
			TypeUrl: topic, SystemVersionInfo: "hostile", Nonce: fmt.Sprint(v.nonce), RemovedResources: gone,
		}
		for size := 0; len(items) > 0 && len(r.Resources) < 1024 && size < 1<<20; items = items[1:] {
			r.Resources = append(r.Resources, items[0])
			size += proto.Size(items[0])
		}
		last := len(items) == 0
		if !last {
			r.Nonce += fmt.Sprint("/", part)
		}
		if err := v.SendMsg(r); err != nil {
			return err
		}
		if err := v.Acknowledged(topic); err != nil {
			return err
		}
		if last {
			return nil
		}
		gone = nil
	}
}

// Acknowledged waits until a message of a topic is acknowledged.
func (v *Subscriber) Acknowledged(topic string) error {
	select {
	case <-v.acked[topic]:
		return nil
	case <-v.Context().Done():
		return v.Context().Err()
	}
}

// Item returns an item with a value, in JSON.
func Item(key, value string) *discoveryv3.Resource {
	return &discoveryv3.Resource{Name: key, Version: "v", Resource: &anypb.Any{Value: wiretest.Value(value)}}
}

// State returns the item with the state of a cluster. A member sends this item before its exports.
func State(sequence int) *discoveryv3.Resource {
	return Item("", fmt.Sprintf(`{"uid":"uid-of-it","epoch":1,"sequence":%d}`, sequence))
}

// Begin serves until end is called. It calls do for each stream. If do returns an error, the stream
// ends with this error; otherwise the subscriber must end it.
func (p *Publisher) Begin(do func(*Subscriber) error) (end func()) {
	server := Server(p.Identity(p.Name, federation.ProcessPath, time.Hour), &p.Rounds, do)
	go func() { _ = server.Serve(p.Listener) }() // ends with Stop
	p.Cleanup(server.Stop)
	return server.Stop
}

// Server returns a Publisher's server. rounds counts the calls of do that have returned.
func Server(certificate tls.Certificate, rounds *atomic.Int64, do func(*Subscriber) error) *grpc.Server {
	server := grpc.NewServer(grpc.ForceServerCodecV2(NewEncoded()), grpc.MaxHeaderListSize(64<<20),
		grpc.Creds(credentials.NewTLS(&tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate},
			ClientAuth: tls.RequireAnyClientCert,
		})))
	follow := func(_ any, s grpc.ServerStream) error {
		err := do(newSubscriber(s))
		if rounds.Add(1); err == nil {
			<-s.Context().Done()
		}
		return err
	}
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "penstock.v1alpha1.Replica", HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{StreamName: "Follow", ServerStreams: true, ClientStreams: true, Handler: follow}},
	}, nil)
	return server
}

func newSubscriber(s grpc.ServerStream) *Subscriber {
	v := &Subscriber{ServerStream: s, acked: map[string]chan struct{}{}}
	for _, topic := range []string{"exports", "imports", "wanted", "loads"} {
		v.acked[topic] = make(chan struct{}, 1)
	}
	go func() {
		subscribed := map[string]bool{}
		for {
			var r discoveryv3.DeltaDiscoveryRequest
			if s.RecvMsg(&r) != nil {
				return
			}
			first := !subscribed[r.GetTypeUrl()]
			subscribed[r.GetTypeUrl()] = true
			if acked := v.acked[r.GetTypeUrl()]; !first && acked != nil {
				select {
				case acked <- struct{}{}:
				default:
				}
			}
		}
	}()
	return v
}

// Follow connects to a Penstock's port for members, and sends the messages. It returns the first
// response, or the error that ended the stream. With hold, Follow also waits for a second response
// or the end of the stream.
func Follow(
	ctx context.Context, address string, certificates []tls.Certificate, hold bool, messages ...[]byte,
) (*discoveryv3.DeltaDiscoveryResponse, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: certificates, InsecureSkipVerify: true,
		NextProtos: []string{"h2"}}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(NewEncoded()), grpc.MaxCallSendMsgSize(1<<30)))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		"/penstock.v1alpha1.Replica/Follow")
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		_ = stream.SendMsg(m) // RecvMsg returns SendMsg's error
	}
	out := &discoveryv3.DeltaDiscoveryResponse{}
	err = stream.RecvMsg(out)
	if err == nil && hold {
		err = stream.RecvMsg(out)
	}
	return out, err
}

// Encoded is a codec that also accepts encoded messages.
type Encoded struct{ encoding.CodecV2 }

// NewEncoded returns an Encoded of gRPC's usual codec.
func NewEncoded() Encoded { return Encoded{encoding.GetCodecV2(protocodec.Name)} }

// Marshal returns v itself if v is encoded already.
func (c Encoded) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.([]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return c.CodecV2.Marshal(v)
}
