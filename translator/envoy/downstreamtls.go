package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/penstock-project/penstock/translator/model"
)

func (b *builder) terminate(secrets []string, clients *model.ClientValidation, alpn ...string) *corev3.TransportSocket {
	tls := &tlsv3.CommonTlsContext{AlpnProtocols: alpn}
	for _, s := range secrets {
		tls.TlsCertificateSdsSecretConfigs = append(tls.TlsCertificateSdsSecretConfigs, b.sds(s))
	}
	context := &tlsv3.DownstreamTlsContext{CommonTlsContext: tls}
	if clients == nil {
		return b.socket("tls", context)
	}
	check := &tlsv3.CertificateValidationContext{}
	if clients.Optional {
		check.TrustChainVerification = tlsv3.CertificateValidationContext_ACCEPT_UNTRUSTED
	} else {
		context.RequireClientCertificate = boolean(true)
	}
	tls.ValidationContextType = b.trusted(check, clients.Trust)
	return b.socket("tls", context)
}
