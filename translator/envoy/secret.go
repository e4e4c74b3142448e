package envoy

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// Secret encodes, for SDS, a certificate with its key, or CAs, or trust domains, or a token.
func Secret(s model.Secret) (*resource.Resource, error) {
	b, out := &builder{}, &tlsv3.Secret{Name: s.Name}
	switch {
	case len(s.Token) > 0:
		out.Type = &tlsv3.Secret_GenericSecret{GenericSecret: &tlsv3.GenericSecret{Secret: data(s.Token)}}
	case len(s.CA) > 0:
		out.Type = &tlsv3.Secret_ValidationContext{
			ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: data(s.CA)},
		}
	case len(s.Domains) > 0:
		out.Type = &tlsv3.Secret_ValidationContext{ValidationContext: b.gateways(s.Domains)}
	default:
		out.Type = &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: data(s.Chain),
			PrivateKey:       data(s.Key),
		}}
	}
	return b.resource(resource.Secret, s.Name, out, slices.Clone(s.Owners))
}

func data(b []byte) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: b}}
}
