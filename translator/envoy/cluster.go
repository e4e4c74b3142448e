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

// Cluster is one backend, pool or picker. Its endpoints come by EDS under its own name, which keeps
// service_name unique (of two clusters that share one, Envoy would not update both).
func Cluster(c *model.Cluster) (*resource.Resource, error) {
	if c.Hops && c.Protocol != model.HTTP1 && c.Protocol != model.H2C {
		return nil, fmt.Errorf("cluster %s speaks %s, which hops do not", c.Name, c.Protocol)
	}
	b := &builder{}
	picker := c.Protocol == model.GRPC
	name := c.Name.String()
	cl := &clusterv3.Cluster{
		Name:                 name,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: ads(), ServiceName: b.eds(name)},
		ConnectTimeout:       seconds(connectTimeout),
		LoadBalancingPolicy:  b.loadBalancing(c),
		CircuitBreakers:      circuitBreakers(c),
		// What left the endpoints takes no new request, however healthy it is.
		IgnoreHealthOnHostRemoval: true,
	}
	if c.Name.Config != 0 { // statistics go on under one name
		cl.AltStatName = c.Name.InAnyConfig().String()
	}
	if c.Protocol != model.TCP && c.Protocol != model.UDP {
		cl.TypedExtensionProtocolOptions = map[string]*anypb.Any{
			"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": b.any(b.protocolOptions(c)),
		}
	}
	if picker && !(c.Own && c.TLS != nil) { // a handshake takes a busy machine longer
		cl.ConnectTimeout = seconds(pickerConnectTimeout)
	}
	if c.HealthService != "" || c.Ejects || c.Protocol == model.UDP || picker && c.Name.External() {
		// By default Envoy holds a change of health back while the last change of the cluster is
		// younger than a second: a picker that takes another's place would get no call for so long.
		cl.CommonLbConfig = &clusterv3.Cluster_CommonLbConfig{UpdateMergeWindow: seconds(0)}
		if !c.Own {
			// A picker that is down must fail at once: with FULL_DUPLEX_STREAMED only that lets a
			// request pass without it. If all of those that are left out for failing are, the hop
			// declines at once. Of our own, by default, all are asked where most seem to be down:
			// that may be a busy machine's pause. Endpoints that drain get no new session.
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
	if b.err != nil {
		return nil, b.err
	}
	return checked(resource.Cluster, cl.Name, cl, b.refs, c.Owners)
}

// healthCheck asks a picker whether it serves. It is quick, because the first answer decides when a
// new cluster is usable, and when Envoy answers for all clusters of a response (docs/envoy.md,
// "Delivery"); and a lost picker is noticed by nothing else. Two failures are needed: one alone is
// a busy picker's pause, and would take every request past it. Our own has more time still: what it
// is slow to answer is asked again elsewhere, which needs an elsewhere that is not left out for
// having been slow a moment ago.
//
// External pickers that are not known to serve health are asked the same over HTTP, where any
// answer that is not a server's failure means that the picker is there: some serve none on this
// port (the inference extension's reference picker), and Envoy's gRPC check takes UNIMPLEMENTED for
// down.
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
		// A gRPC message without content: the health of the whole server.
		Send:             &corev3.HealthCheck_Payload{Payload: &corev3.HealthCheck_Payload_Text{Text: "0000000000"}},
		ExpectedStatuses: []*typev3.Int64Range{{Start: 200, End: 500}},
	}}
	return check
}

// ejected leaves out an endpoint that could not be reached twice, for a second: without it each
// request of its share waits for as long as a connection may take. Answers of any status eject
// none. The time is bounded: by default it grows with each ejection, up to five minutes, and a
// gateway that is back would have to wait so long.
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
			// A picker that is frozen, or behind a cut wire, does not close its connections.
			h2.ConnectionKeepalive = &corev3.KeepaliveSettings{
				Interval: seconds(10 * time.Second), Timeout: seconds(2 * time.Second),
			}
			if c.Name.Kind == model.ImportPickerKind {
				// A pick that reads the body as a stream has no other limit (a request waited for
				// 9.8 s where another cluster served).
				h2.ConnectionKeepalive = peerKeepalive()
			}
			if c.Own {
				// Without an answer to the ping the connection ends, and the call is made again at
				// another picker. Passive outlier detection is no help: it takes the end of a call
				// that was answered for a failure, and then leaves out the picker that works.
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
	case c.Fallback == model.FallbackMembers:
		o.HttpFilters = b.numbered()
	}
	return o
}

// alpn is what the cluster speaks inside TLS; nothing where only its clients know.
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
