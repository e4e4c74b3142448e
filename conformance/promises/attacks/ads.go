package attacks

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/conformance/promises/parties"
)

// Flood opens unauthenticated ADS streams, each on its own connection. It sends a message on all
// streams at once, with a node ID of bytes bytes. Once the server has ended every stream, Flood
// returns the number of streams by error.
func Flood(ctx context.Context, address string, transport credentials.TransportCredentials, streams,
	bytes int) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	// The streams share the message, so that the attacker needs little memory.
	message, err := protobuf.Marshal(&discoveryv3.DeltaDiscoveryRequest{
		Node:    &corev3.Node{Cluster: "nothing", Id: string(make([]byte, bytes))},
		TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster",
	})
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	ends := map[string]int{}
	var all sync.WaitGroup
	for range streams {
		all.Go(func() {
			err := flood(ctx, address, transport, message)
			mu.Lock()
			defer mu.Unlock()
			ends[fmt.Sprint(err)]++
		})
	}
	all.Wait()
	return ends, ctx.Err()
}

func flood(ctx context.Context, address string, transport credentials.TransportCredentials, message []byte) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(transport),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(parties.NewEncoded()), grpc.MaxCallSendMsgSize(2*len(message))))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName)
	if err != nil {
		return err
	}
	_ = stream.SendMsg(message) // RecvMsg returns SendMsg's error
	return stream.RecvMsg(&discoveryv3.DeltaDiscoveryResponse{})
}
