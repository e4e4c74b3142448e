package envoy

import (
	"fmt"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	headersv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/proxy_protocol/v3"
	inspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	uuidv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/request_id/uuid/v3"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// Listener encodes a TCP port of a Gateway. A change outside filter chains ends every stream of the
// port, so no field depends on routes.
func Listener(cfg Config, p model.Port) (*resource.Resource, error) {
	if len(p.Addresses) == 0 || len(p.Chains)+len(p.Streams) == 0 {
		return nil, fmt.Errorf("port %d of Gateway %s has no address or no chain", p.Number, p.Gateway)
	}
	b := &builder{}
	l := tcpListener(cfg, p)
	tls := false
	for _, c := range p.Chains {
		l.FilterChains = append(l.FilterChains, b.chain(cfg, p, c))
		tls = tls || c.TLS
	}
	for _, s := range p.Streams {
		l.FilterChains = append(l.FilterChains, b.stream(cfg, s))
		tls = tls || s.TLS
	}
	l.ListenerFilters = b.proxyProtocol(p.Edge.ProxyProtocol)
	if tls { // TLS begins after the cleartext PROXY protocol header
		l.ListenerFilters = append(l.ListenerFilters, b.listenerFilter("tls_inspector", &inspectorv3.TlsInspector{}))
	}
	return b.resource(resource.Listener, l.Name, l, p.Owners)
}

func tcpListener(cfg Config, p model.Port) *listenerv3.Listener {
	l := &listenerv3.Listener{
		Name:             model.ListenerName(p.Number),
		Address:          address(p.Addresses[0], uint32(p.Number)),
		TrafficDirection: corev3.TrafficDirection_INBOUND,
		// This limits the memory of an answer that a client does not read (Envoy's edge guide).
		PerConnectionBufferLimitBytes: u32(connectionBuffer),
	}
	if cfg.OwnPorts {
		l.EnableReusePort = boolean(false)
	}
	for _, a := range p.Addresses[1:] {
		l.AdditionalAddresses = append(l.AdditionalAddresses,
			&listenerv3.AdditionalAddress{Address: address(a, uint32(p.Number))})
	}
	return l
}

func (b *builder) proxyProtocol(pp v1alpha1.ProxyProtocol) []*listenerv3.ListenerFilter {
	if pp != v1alpha1.ProxyProtocolRequired && pp != v1alpha1.ProxyProtocolOptional {
		return nil
	}
	return []*listenerv3.ListenerFilter{b.listenerFilter("proxy_protocol", &proxyprotocolv3.ProxyProtocol{
		AllowRequestsWithoutProxyProtocol: pp == v1alpha1.ProxyProtocolOptional,
	})}
}

func (b *builder) listenerFilter(name string, config proto.Message) *listenerv3.ListenerFilter {
	return &listenerv3.ListenerFilter{
		Name: name, ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: b.any(config)},
	}
}

// If one named filter chain changes, Envoy drains only that chain.
func (b *builder) chain(cfg Config, p model.Port, c model.Chain) *listenerv3.FilterChain {
	fc := &listenerv3.FilterChain{
		Name: c.Name, Filters: b.only("hcm", b.edge(cfg, p, c)),
	}
	if !c.TLS {
		return fc
	}
	fc.FilterChainMatch = byName(c.ServerName)
	fc.TransportSocket = b.terminate(c.Secrets, c.Clients, "h2", "http/1.1")
	return fc
}

func byName(server string) *listenerv3.FilterChainMatch {
	m := &listenerv3.FilterChainMatch{TransportProtocol: "tls"}
	if server != "" {
		m.ServerNames = []string{server}
	}
	return m
}

func (b *builder) edge(cfg Config, p model.Port, c model.Chain) *hcmv3.HttpConnectionManager {
	m := b.manager(cfg, p.Gateway, c.Name, p.Edge.RequestTimeout, p.Edge.Uploads,
		&headersv3.HeaderMutation{Mutations: &headersv3.Mutations{
			ResponseMutations: []*mutationv3.HeaderMutation{removeHeader(peerMark), removeHeader(peerLost)},
		}})
	m.UseRemoteAddress = boolean(true)
	// No address is internal: otherwise clients in private networks could set x-envoy-max-retries.
	// An empty list would mean all private addresses.
	m.InternalAddressConfig = &hcmv3.HttpConnectionManager_InternalAddressConfig{
		CidrRanges: []*corev3.CidrRange{{AddressPrefix: "255.255.255.255", PrefixLen: u32(32)}},
	}
	m.EarlyHeaderMutationExtensions = b.strip(edgeHeaders)
	if c.Clients != nil {
		m.ForwardClientCertDetails = hcmv3.HttpConnectionManager_SANITIZE_SET
		m.SetCurrentClientCertDetails = &hcmv3.HttpConnectionManager_SetCurrentClientCertDetails{
			Subject: boolean(true), Dns: true, Uri: true, Cert: c.Clients.Optional,
		}
	}
	m.AlwaysSetRequestIdInResponse = true
	if p.Edge.RequestIDs == v1alpha1.KeepRequestIDs {
		b.keepRequestID(m)
	}
	m.HttpProtocolOptions.AcceptHttp_10 = acceptsHTTP10(p.Edge.HTTP10)
	m.StripTrailingHostDot = true
	m.NormalizePath = boolean(true)
	m.MergeSlashes = true
	m.PathWithEscapedSlashesAction = escapedSlashes(p.Edge.EscapedSlashes)
	m.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{
		HeadersWithUnderscoresAction: underscores(p.Edge.Underscores),
	}
	m.XffNumTrustedHops = p.Edge.TrustedHops
	if p.Edge.Streams > 0 {
		m.Http2ProtocolOptions.MaxConcurrentStreams = u32(p.Edge.Streams)
	}
	return m
}

// Without the extension Envoy would encode the trace reason in x-request-id.
func (b *builder) keepRequestID(m *hcmv3.HttpConnectionManager) {
	m.PreserveExternalRequestId = true
	m.RequestIdExtension = &hcmv3.RequestIDExtension{
		TypedConfig: b.any(&uuidv3.UuidRequestIdConfig{PackTraceReason: boolean(false)}),
	}
}

func escapedSlashes(v v1alpha1.EscapedSlashes) hcmv3.HttpConnectionManager_PathWithEscapedSlashesAction {
	switch v {
	case v1alpha1.KeepEscapes:
		return hcmv3.HttpConnectionManager_KEEP_UNCHANGED
	case v1alpha1.RejectEscapes:
		return hcmv3.HttpConnectionManager_REJECT_REQUEST
	case v1alpha1.UnescapeAndForward:
		return hcmv3.HttpConnectionManager_UNESCAPE_AND_FORWARD
	}
	return hcmv3.HttpConnectionManager_UNESCAPE_AND_REDIRECT
}

func underscores(v v1alpha1.HeadersWithUnderscores) corev3.HttpProtocolOptions_HeadersWithUnderscoresAction {
	switch v {
	case v1alpha1.AllowUnderscores:
		return corev3.HttpProtocolOptions_ALLOW
	case v1alpha1.DropUnderscores:
		return corev3.HttpProtocolOptions_DROP_HEADER
	}
	return corev3.HttpProtocolOptions_REJECT_REQUEST
}

func address(ip string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       ip,
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}
