package attacks

import (
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/multicluster/federation/wiretest"
)

// publisher is a hostile member: a server with a certificate of its cluster. Each connection to it is a round of its attack.
type publisher struct {
	*ca
	name     string
	listener net.Listener
	rounds   atomic.Int64
}

func newPublisher(t *testing.T, name string) *publisher {
	t.Helper()
	return &publisher{ca: newCA(t), name: name, listener: listen(t)}
}

// attack is what a hostile member publishes.
type attack struct {
	name   string
	logged string // in the log about it; "": it has no effect that is worth a word
	// do returns how the stream ends; nil: once the other end has ended it.
	do func(to *victim) error
}

// victim is a stream to who subscribes.
type victim struct {
	grpc.ServerStream
	acked map[string]chan struct{} // by topic
	nonce int
}

// send sends items of a topic.
func (v *victim) send(topic string, items []*discoveryv3.Resource, gone ...string) error {
	v.nonce++
	return v.SendMsg(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: topic, SystemVersionInfo: "hostile", Nonce: fmt.Sprint(v.nonce), Resources: items, RemovedResources: gone})
}

// publish sends items of a topic in parts as large as may be, each after the acknowledgement of the one before.
func (v *victim) publish(topic string, items []*discoveryv3.Resource, gone ...string) error {
	v.nonce++
	for part := 0; ; part++ {
		r := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: topic, SystemVersionInfo: "hostile", Nonce: fmt.Sprint(v.nonce), RemovedResources: gone}
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
		select {
		case <-v.acked[topic]:
		case <-v.Context().Done():
			return v.Context().Err()
		}
		if last {
			return nil
		}
		gone = nil
	}
}

// item is an item with a value, in JSON.
func item(key, value string) *discoveryv3.Resource {
	return &discoveryv3.Resource{Name: key, Version: "v", Resource: &anypb.Any{Value: wiretest.Value(value)}}
}

// state is the member's own, which comes before its exports.
func state(sequence int) *discoveryv3.Resource {
	return item("", fmt.Sprintf(`{"uid":"uid-of-it","epoch":1,"sequence":%d}`, sequence))
}

// export is one, with more fields of its entry.
func exported(name string, sequence int, entry string) *discoveryv3.Resource {
	return item(name, fmt.Sprintf(`{"epoch":1,"sequence":%d,"entry":{"routingMode":"EndpointMode"%s}}`, sequence, entry))
}

// begin begins an attack, which end ends.
func (p *publisher) begin(a attack) (end func()) {
	certificate := p.identity(p.name, federation.ProcessPath, time.Hour)
	server := grpc.NewServer(grpc.ForceServerCodecV2(newEncoded()), grpc.MaxHeaderListSize(64<<20), grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAnyClientCert,
	})))
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "penstock.v1alpha1.Replica", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
		StreamName: "Follow", ServerStreams: true, ClientStreams: true, Handler: func(_ any, s grpc.ServerStream) error { return p.follow(s, a) },
	}}}, p)
	go func() { _ = server.Serve(p.listener) }() // ends with Stop
	p.Cleanup(server.Stop)
	return server.Stop
}

func (p *publisher) follow(s grpc.ServerStream, a attack) error {
	v := &victim{ServerStream: s, acked: map[string]chan struct{}{}}
	for _, topic := range []string{"exports", "imports", "wanted", "loads"} {
		v.acked[topic] = make(chan struct{}, 1)
	}
	go func() { // ends with the stream
		for {
			var r discoveryv3.DeltaDiscoveryRequest
			if s.RecvMsg(&r) != nil {
				return
			}
			if acked := v.acked[r.GetTypeUrl()]; r.GetResponseNonce() != "" && acked != nil {
				select {
				case acked <- struct{}{}:
				default:
				}
			}
		}
	}()
	err := a.do(v)
	p.rounds.Add(1)
	if err == nil {
		<-s.Context().Done()
	}
	return err
}
