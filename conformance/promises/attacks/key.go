package attacks

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// StealKey reads the picker key of a Gateway over a connection to ADS, as the Gateway's Envoy does.
func StealKey(ctx context.Context, ads *grpc.ClientConn, gateway string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(ads).DeltaAggregatedResources(ctx)
	if err != nil {
		return "", err
	}
	// Recv returns Send's error.
	_ = s.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node: &corev3.Node{Id: "thief", Cluster: gateway}, TypeUrl: resource.Secret.URL(),
		ResourceNamesSubscribe: []string{model.OwnKey},
	})
	response, err := s.Recv()
	if err != nil || len(response.Resources) != 1 {
		return "", errors.Join(fmt.Errorf("got %d secrets, want one", len(response.GetResources())), err)
	}
	var secret tlsv3.Secret
	if err := response.Resources[0].Resource.UnmarshalTo(&secret); err != nil {
		return "", err
	}
	return string(secret.GetGenericSecret().GetSecret().GetInlineBytes()) +
		secret.GetGenericSecret().GetSecret().GetInlineString(), nil
}

func call(ctx context.Context, key, pool string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key, "x-penstock-pool", pool), cancel
}

// Pick requests a pick from a pool, with the key of a Gateway. It returns the status of the call.
func Pick(ctx context.Context, picker *grpc.ClientConn, key, pool string) codes.Code {
	ctx, cancel := call(ctx, key, pool)
	defer cancel()
	s, err := extprocv3.NewExternalProcessorClient(picker).Process(ctx)
	if err != nil {
		return status.Code(err)
	}
	_ = s.Send(
		&extprocv3.ProcessingRequest{
			Request: &extprocv3.ProcessingRequest_RequestHeaders{
				RequestHeaders: &extprocv3.HttpHeaders{EndOfStream: true},
			},
		})
	_, err = s.Recv()
	return status.Code(err)
}

// ReportPhantoms reports to a picker 100 requests in flight at an endpoint that were never sent.
func ReportPhantoms(ctx context.Context, picker *grpc.ClientConn, key, pool, endpoint string) error {
	ctx, cancel := call(ctx, key, "")
	defer cancel()
	s, err := accesslogv3.NewAccessLogServiceClient(picker).StreamAccessLogs(ctx)
	if err != nil {
		return err
	}
	var entries []*datav3.HTTPAccessLogEntry
	for i := range 100 {
		ours, _ := structpb.NewStruct(map[string]any{"pool": pool, "lease": fmt.Sprint("gone.", i)})
		lb, _ := structpb.NewStruct(map[string]any{"x-gateway-destination-endpoint-served": endpoint})
		entries = append(entries, &datav3.HTTPAccessLogEntry{CommonProperties: &datav3.AccessLogCommon{
			AccessLogType: datav3.AccessLogType_DownstreamPeriodic,
			Metadata: &corev3.Metadata{
				FilterMetadata: map[string]*structpb.Struct{"penstock": ours, "envoy.lb": lb},
			},
		}})
	}
	if err := s.Send(&accesslogv3.StreamAccessLogsMessage{LogEntries: &accesslogv3.StreamAccessLogsMessage_HttpLogs{
		HttpLogs: &accesslogv3.StreamAccessLogsMessage_HTTPAccessLogEntries{LogEntry: entries}}}); err != nil {
		return err
	}
	_, _ = s.CloseAndRecv() // after all messages, the server ends the stream without a response
	return nil
}
