package envoy

import (
	"regexp"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rawv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/translator/model"
)

// hopKey marks hops (internal listeners): they have no TLS, even if the cluster's pods have TLS.
const hopKey = "hop"

const cleartextKey = "cleartext"

// Debian, Alpine and Envoy's images have CAs at this path. Envoy 1.40 lacks system_root_certs.
const systemRoots = "/etc/ssl/certs/ca-certificates.crt"

func (b *builder) secure(cl *clusterv3.Cluster, c *model.Cluster) {
	if c.TLS == nil {
		return
	}
	common := &tlsv3.CommonTlsContext{AlpnProtocols: alpn(c.Protocol)}
	if c.TLS.Certificate != "" {
		common.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{b.sds(c.TLS.Certificate)}
	}
	b.trust(common, c.TLS)
	if c.Own {
		common.TlsParams = &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
			TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3}
	}
	// Envoy's default maximum for clients is TLS 1.2. An external picker may require TLS 1.3.
	if !c.Own && c.Protocol == model.GRPC {
		common.TlsParams = &tlsv3.TlsParameters{TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3}
	}
	if c.Peer {
		common.TlsParams = &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
			TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3}
	}
	cl.TransportSocket = b.socket("tls", &tlsv3.UpstreamTlsContext{Sni: c.TLS.SNI, CommonTlsContext: common})
	plain := func(key string) {
		cl.TransportSocketMatches = append(cl.TransportSocketMatches, &clusterv3.Cluster_TransportSocketMatch{
			Name: key, Match: field(key, structpb.NewBoolValue(true)),
			TransportSocket: b.socket("raw_buffer", &rawv3.RawBuffer{}),
		})
	}
	if c.Hops {
		plain(hopKey)
	}
	if c.Cleartext {
		plain(cleartextKey)
	}
}

// Without a validation context Envoy accepts any certificate.
func (b *builder) trust(common *tlsv3.CommonTlsContext, t *model.UpstreamTLS) {
	if t.Insecure {
		return
	}
	check := &tlsv3.CertificateValidationContext{}
	expect := func(kind tlsv3.SubjectAltNameMatcher_SanType, m *matcherv3.StringMatcher) {
		check.MatchTypedSubjectAltNames = append(check.MatchTypedSubjectAltNames,
			&tlsv3.SubjectAltNameMatcher{SanType: kind, Matcher: m})
	}
	for _, san := range t.SANs {
		expect(tlsv3.SubjectAltNameMatcher_DNS, dnsName(san))
	}
	for _, uri := range t.URIs {
		expect(tlsv3.SubjectAltNameMatcher_URI, exact(uri))
	}
	if t.Trust == "" {
		check.TrustedCa = &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: systemRoots}}
		common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: check}
		return
	}
	common.ValidationContextType = b.trusted(check, t.Trust)
}

func (b *builder) trusted(check *tlsv3.CertificateValidationContext,
	trust string) *tlsv3.CommonTlsContext_CombinedValidationContext {
	return &tlsv3.CommonTlsContext_CombinedValidationContext{
		CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
			DefaultValidationContext:         check,
			ValidationContextSdsSecretConfig: b.sds(trust),
		},
	}
}

func dnsName(san string) *matcherv3.StringMatcher {
	rest, wild := strings.CutPrefix(san, "*")
	if !wild {
		return exact(san)
	}
	return byRegex(`[^.]+` + regexp.QuoteMeta(rest))
}

func (b *builder) socket(name string, config proto.Message) *corev3.TransportSocket {
	return &corev3.TransportSocket{
		Name:       name,
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: b.any(config)},
	}
}
