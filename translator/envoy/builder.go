package envoy

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	upstreamcodecv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/upstream_codec/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

type builder struct {
	hops  bool
	peers bool
	waits bool // Config.Waits
	// believes is set if another cluster may name a request's caller (model.PeerHost.Believed).
	believes bool
	refs     []resource.Ref
	err      error
}

func (b *builder) any(msg proto.Message) *anypb.Any {
	body, err := resource.Marshal(msg)
	if err != nil && b.err == nil {
		b.err = err
	}
	return &anypb.Any{TypeUrl: "type.googleapis.com/" + string(msg.ProtoReflect().Descriptor().FullName()), Value: body}
}

func (b *builder) extension(name string, msg proto.Message) *corev3.TypedExtensionConfig {
	return &corev3.TypedExtensionConfig{Name: name, TypedConfig: b.any(msg)}
}

func (b *builder) httpFilter(name string, config proto.Message) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: b.any(config)}}
}

func (b *builder) upstreamCodec() *hcmv3.HttpFilter {
	return b.httpFilter("envoy.filters.http.upstream_codec", &upstreamcodecv3.UpstreamCodec{})
}

func (b *builder) only(name string, config proto.Message) []*listenerv3.Filter {
	return []*listenerv3.Filter{{
		Name: name, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: b.any(config)},
	}}
}

func (b *builder) cluster(id model.ClusterID) string {
	name := id.String()
	b.refs = append(b.refs, resource.Ref{Type: resource.Cluster, Name: name})
	return name
}

func (b *builder) rds(name string) string {
	b.refs = append(b.refs, resource.Ref{Type: resource.RouteConfiguration, Name: name})
	return name
}

func (b *builder) eds(name string) string {
	b.refs = append(b.refs, resource.Ref{Type: resource.Endpoints, Name: name})
	return name
}

func (b *builder) sds(name string) *tlsv3.SdsSecretConfig {
	b.refs = append(b.refs, resource.Ref{Type: resource.Secret, Name: name})
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: ads()}
}

func (b *builder) grpc(cluster model.ClusterID) *corev3.GrpcService {
	return &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
		EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: b.cluster(cluster)},
	}}
}

func ads() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
	}
}
