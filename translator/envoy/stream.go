package envoy

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/translator/model"
)

func (b *builder) stream(cfg Config, s model.Stream) *listenerv3.FilterChain {
	proxy := &tcpv3.TcpProxy{
		StatPrefix:         "stream",
		ClusterSpecifier:   &tcpv3.TcpProxy_Cluster{Cluster: unresolved},
		IdleTimeout:        seconds(streamIdle),
		MaxConnectAttempts: u32(connectAttempts),
		AccessLog:          b.streamLog(cfg, s.Name),
	}
	if weightSum(s.Backends) > 0 {
		proxy.ClusterSpecifier = &tcpv3.TcpProxy_WeightedClusters{WeightedClusters: b.streamClusters(s.Backends)}
	}
	fc := &listenerv3.FilterChain{
		Name: s.Name, Filters: b.only("tcp", proxy),
	}
	if s.TLS {
		fc.FilterChainMatch = byName(s.ServerName)
	}
	if len(s.Secrets) > 0 {
		fc.TransportSocket = b.terminate(s.Secrets, nil)
	}
	return fc
}

func (b *builder) streamClusters(backends []model.WeightedBackend) *tcpv3.TcpProxy_WeightedCluster {
	out := &tcpv3.TcpProxy_WeightedCluster{}
	for _, w := range backends {
		if w.Weight == 0 {
			continue
		}
		name := unresolved
		if !w.Cluster.IsZero() {
			name = b.cluster(w.Cluster)
		}
		out.Clusters = append(out.Clusters, &tcpv3.TcpProxy_WeightedCluster_ClusterWeight{Name: name, Weight: w.Weight})
	}
	return out
}

func (b *builder) streamLog(cfg Config, chain string) []*accesslogv3.AccessLog {
	return b.fileLog(cfg, map[string]string{
		"time":     "%START_TIME%",
		"client":   "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
		"host":     "%REQUESTED_SERVER_NAME%",
		"chain":    chain,
		"cluster":  "%UPSTREAM_CLUSTER%",
		"served":   "%UPSTREAM_HOST%",
		"attempts": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
		"flags":    "%RESPONSE_FLAGS%",
		"details":  "%CONNECTION_TERMINATION_DETAILS%",
		"received": "%BYTES_RECEIVED%",
		"sent":     "%BYTES_SENT%",
		"total_ms": "%DURATION%",
	})
}

func (b *builder) fileLog(cfg Config, fields map[string]string) []*accesslogv3.AccessLog {
	if cfg.AccessLog == "" {
		return nil
	}
	line := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for k, v := range fields {
		line.Fields[k] = structpb.NewStringValue(v)
	}
	return []*accesslogv3.AccessLog{{
		Name: "file",
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: b.any(&filelogv3.FileAccessLog{
			Path: cfg.AccessLog,
			AccessLogFormat: &filelogv3.FileAccessLog_LogFormat{LogFormat: &corev3.SubstitutionFormatString{
				Format: &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: line},
			}},
		})},
	}}
}
