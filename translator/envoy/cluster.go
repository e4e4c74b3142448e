package envoy

import (
	"fmt"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// Cluster encodes a backend, pool or picker. Its EDS resource has the cluster's name: Envoy would
// not update two clusters with the same service_name.
func Cluster(c *model.Cluster) (*resource.Resource, error) { return ClusterFor(Config{}, c) }

// ClusterFor is Cluster with a Config, which affects only clusters of Penstock's own services.
func ClusterFor(cfg Config, c *model.Cluster) (*resource.Resource, error) {
	if c.Hops && c.Protocol != model.HTTP1 && c.Protocol != model.H2C {
		return nil, fmt.Errorf("cluster %s speaks %s, which hops do not", c.Name, c.Protocol)
	}
	b := &builder{waits: cfg.Waits}
	picker := c.Protocol == model.GRPC
	name := c.Name.String()
	cl := &clusterv3.Cluster{
		Name:                      name,
		ClusterDiscoveryType:      &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:          &clusterv3.Cluster_EdsClusterConfig{EdsConfig: ads(), ServiceName: b.eds(name)},
		ConnectTimeout:            seconds(connectTimeout),
		LoadBalancingPolicy:       b.loadBalancing(c),
		CircuitBreakers:           circuitBreakers(c),
		IgnoreHealthOnHostRemoval: true,
	}
	if c.Name.Config != 0 {
		cl.AltStatName = c.Name.InAnyConfig().String()
	}
	if c.Protocol != model.TCP && c.Protocol != model.UDP {
		cl.TypedExtensionProtocolOptions = map[string]*anypb.Any{
			"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": b.any(b.protocolOptions(c)),
		}
	}
	if picker && !(c.Own && c.TLS != nil) { // TLS handshakes take longer on a busy machine
		cl.ConnectTimeout = seconds(pickerConnectTimeout)
	}
	if c.Name == model.OurGate {
		cl.ConnectTimeout = seconds(gateConnectTimeout)
		if c.TLS != nil {
			cl.ConnectTimeout = seconds(gateTLSTimeout)
		}
		cl.OutlierDetection = silentGates()
	}
	if c.HealthService != "" || c.Ejects || c.Protocol == model.UDP || picker && c.Name.External() {
		// By default Envoy delays a health change for up to a second. A new picker would get no
		// calls meanwhile.
		cl.CommonLbConfig = &clusterv3.Cluster_CommonLbConfig{UpdateMergeWindow: seconds(0)}
		if !c.Own {
			// A request in FULL_DUPLEX_STREAMED passes a dead picker only if the call fails at
			// once. Our own picker keeps the default: if most replicas seem dead, the machine may
			// just be busy.
			cl.CommonLbConfig.HealthyPanicThreshold = &typev3.Percent{Value: 0}
		}
	}
	if c.HealthService != "" {
		cl.HealthChecks = []*corev3.HealthCheck{healthCheck(c)}
	}
	if c.Ejects {
		cl.OutlierDetection = ejected()
	}
	b.secure(cl, c)
	return b.resource(resource.Cluster, cl.Name, cl, c.Owners)
}

// healthCheck is fast, because its first result lets Envoy acknowledge all clusters of a response
// (docs/envoy.md, "Delivery"). A picker is unhealthy after two failures: with one, requests would
// bypass a busy picker that pauses once. Our own picker has a longer timeout, because a slow
// replica must stay healthy for retries.
//
// Envoy's gRPC check fails on UNIMPLEMENTED. So the check of an external picker, which may lack the
// gRPC health service, uses HTTP, and every answer below 500 passes.
func healthCheck(c *model.Cluster) *corev3.HealthCheck {
	check := &corev3.HealthCheck{
		Timeout:            seconds(500 * time.Millisecond),
		Interval:           seconds(time.Second),
		NoTrafficInterval:  seconds(time.Second),
		UnhealthyThreshold: u32(2),
		HealthyThreshold:   u32(1),
	}
	if c.Own {
		check.Timeout = seconds(time.Second)
	}
	if c.Own || c.ServesHealth {
		check.HealthChecker = &corev3.HealthCheck_GrpcHealthCheck_{
			GrpcHealthCheck: &corev3.HealthCheck_GrpcHealthCheck{ServiceName: c.HealthService},
		}
		return check
	}
	check.HealthChecker = &corev3.HealthCheck_HttpHealthCheck_{HttpHealthCheck: &corev3.HealthCheck_HttpHealthCheck{
		Path:            "/grpc.health.v1.Health/Check",
		Method:          corev3.RequestMethod_POST,
		CodecClientType: typev3.CodecClientType_HTTP2,
		RequestHeadersToAdd: []*corev3.HeaderValueOption{
			{Header: &corev3.HeaderValue{Key: "content-type", Value: "application/grpc"}},
			{Header: &corev3.HeaderValue{Key: "te", Value: "trailers"}},
		},
		Send:             &corev3.HealthCheck_Payload{Payload: &corev3.HealthCheck_Payload_Text{Text: "0000000000"}},
		ExpectedStatuses: []*typev3.Int64Range{{Start: 200, End: 500}},
	}}
	return check
}

// silentGates ejects an authorization server after two calls without an answer, long before its
// health check fails. Otherwise, if one of two servers is frozen, half of all requests wait for it
// first, and have 80 ms left for the other. With split_external_local_origin_errors, a successful
// connection would reset the count of failures. If all servers are ejected, Envoy calls all.
func silentGates() *clusterv3.OutlierDetection {
	never, always := u32(0), u32(100)
	return &clusterv3.OutlierDetection{
		ConsecutiveGatewayFailure:          u32(2),
		Interval:                           seconds(time.Second),
		BaseEjectionTime:                   seconds(time.Second),
		MaxEjectionTime:                    seconds(time.Second),
		MaxEjectionPercent:                 always,
		EnforcingConsecutiveGatewayFailure: always,
		EnforcingConsecutive_5Xx:           never,
		EnforcingSuccessRate:               never,
	}
}

// ejected ejects unreachable endpoints, because each request to them would wait for the connect
// timeout.
func ejected() *clusterv3.OutlierDetection {
	never, always := u32(0), u32(100)
	return &clusterv3.OutlierDetection{
		SplitExternalLocalOriginErrors:         true,
		ConsecutiveLocalOriginFailure:          u32(2),
		Interval:                               seconds(time.Second),
		BaseEjectionTime:                       seconds(time.Second),
		MaxEjectionTime:                        seconds(time.Second),
		MaxEjectionPercent:                     always,
		EnforcingConsecutiveLocalOriginFailure: always,
		EnforcingLocalOriginSuccessRate:        never,
		EnforcingConsecutive_5Xx:               never,
		EnforcingConsecutiveGatewayFailure:     never,
		EnforcingSuccessRate:                   never,
	}
}

func (b *builder) protocolOptions(c *model.Cluster) *httpv3.HttpProtocolOptions {
	explicit := &httpv3.HttpProtocolOptions_ExplicitHttpConfig{}
	o := &httpv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: explicit},
	}
	switch c.Protocol {
	case model.H2C, model.GRPC:
		h2 := &corev3.Http2ProtocolOptions{}
		if c.Peer {
			h2 = peerProtocol()
		}
		if c.Protocol == model.GRPC {
			// A frozen or disconnected picker does not close its connections.
			h2.ConnectionKeepalive = &corev3.KeepaliveSettings{
				Interval: seconds(10 * time.Second), Timeout: seconds(2 * time.Second),
			}
			if c.Name.Kind == model.ImportPickerKind {
				// Nothing else limits a pick that streams the body.
				h2.ConnectionKeepalive = peerKeepalive()
			}
			if c.Own && b.waits { // the connection, with its access logs, must outlast the picker's replacement
				h2.ConnectionKeepalive.Timeout = seconds(gateWaitTimeout)
			} else if c.Own {
				// Without an answer to the ping, Envoy retries the call at another replica. Outlier
				// detection instead would count the end of an answered call as a failure.
				h2.ConnectionKeepalive = &corev3.KeepaliveSettings{
					Interval: seconds(pickerPing), Timeout: seconds(silentPing),
					ConnectionIdleInterval: seconds(silentBefore),
				}
			}
		}
		explicit.ProtocolConfig = &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
			Http2ProtocolOptions: h2,
		}
	default:
		explicit.ProtocolConfig = &httpv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{
			HttpProtocolOptions: &corev3.Http1ProtocolOptions{EnableTrailers: c.Hops},
		}
		o.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{IdleTimeout: seconds(upstreamIdle)}
	}
	if c.TLS != nil && c.TLS.AutoSNI {
		o.UpstreamHttpProtocolOptions = &corev3.UpstreamHttpProtocolOptions{AutoSni: true}
	}
	switch {
	case c.Key != "":
		o.HttpFilters = b.carry(c.Key)
	case c.Credential != nil:
		o.HttpFilters = b.credential(c.Credential)
	case c.Fallback == model.FallbackMembers:
		o.HttpFilters = b.numbered()
	}
	return o
}

func alpn(p model.Protocol) []string {
	switch p {
	case model.TCP, model.UDP:
		return nil
	case model.HTTP1:
		return []string{"http/1.1"}
	}
	return []string{"h2"}
}

func number(n uint32) *wrapperspb.UInt32Value {
	if n == 0 {
		return nil
	}
	return u32(n)
}
