package channel

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// A peer that sends responses without waiting for acknowledgements ends its stream. Otherwise calls
// of a topic's handlers, which share variables without locks, would overlap.
func TestPeers_ResponsesWithoutAcknowledgementsEndTheStream(t *testing.T) {
	var streams atomic.Int32
	flooded := make(chan struct{}) // closed after ten responses without an acknowledgement, or once none can be sent
	flood := sync.OnceFunc(func() { close(flooded) })
	hostile := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		streams.Add(1)
		defer flood() // the stream ended
		if err := stream.RecvMsg(&request{}); err != nil {
			return err
		}
		for n := range 100 {
			if err := stream.SendMsg(&response{TypeUrl: "things", Nonce: fmt.Sprint(n),
				SystemVersionInfo: "hostile"}); err != nil {
				return err
			}
			if n == 10 {
				flood()
			}
		}
		<-stream.Context().Done()
		return nil
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = hostile.Serve(l) }()
	t.Cleanup(hostile.Stop)
	p := start(t, "127.0.0.1:0")
	var running, most atomic.Int32
	p.mu.Lock()
	p.hold = func(context.Context) {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		<-flooded
	}
	p.mu.Unlock()
	p.SetPeers(l.Addr().String())
	eventually(t, "each stream ends", func() bool { return streams.Load() > 2 },
		func() string { return fmt.Sprint(streams.Load(), " streams") })
	if n := most.Load(); n != 1 {
		t.Errorf("%d updates of one topic were delivered at a time, want 1", n)
	}
}

// A million empty items take two megabytes on the wire, and a hundred times as much decoded.
func TestPeers_ResponseOfTooManyItemsIsNotDecoded(t *testing.T) {
	good, err := proto.Marshal(&response{TypeUrl: "things", Nonce: "1", SystemVersionInfo: "a",
		RemovedResources: []string{"x"}, Resources: []*discoveryv3.Resource{
			published{value: []byte("v")}.encode("k", time.Unix(0, 0)),
		}})
	if err != nil {
		t.Fatal(err)
	}
	named, err := proto.Marshal(&response{ControlPlane: nil,
		RemovedResourceNames: []*discoveryv3.ResourceName{{Name: "n"}}})
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		message string
		bad     bool
	}{
		"one of a peer": {string(good), false},
		"empty items":   {strings.Repeat("\x12\x00", maxVersions+2*maxOwn), true},
		"aliases":       {"\x12\x20" + strings.Repeat("\x22\x00", 16), true},
		"other fields":  {string(named), true},
		"no message":    {"\xff", true},
	} {
		var r response
		if err := newBounded(responseShape, maxVersions).Unmarshal(mem.BufferSlice{mem.SliceBuffer(c.message)},
			&r); (err != nil) != c.bad {
			t.Errorf("%s: got %v, want an error: %t", what, err, c.bad)
		}
	}
}
