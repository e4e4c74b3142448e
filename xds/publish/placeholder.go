package publish

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

// placeholder replaces a rejected secret without a last good version. Envoy keeps the rejected
// bytes, and would reject later listeners and clusters that name the secret. No peer accepts the
// placeholder's certificate: it is expired and has an unused name.
func placeholder(rejected *cache.Entry, x *secret) *cache.Entry {
	if x == nil {
		return nil
	}
	chain, key, err := endedPair()
	if err != nil {
		return nil
	}
	inline := func(text []byte) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: text}}
	}
	switch t := x.GetType().(type) {
	case *tlsv3.Secret_TlsCertificate:
		t.TlsCertificate = &tlsv3.TlsCertificate{CertificateChain: inline(chain), PrivateKey: inline(key)}
	case *tlsv3.Secret_ValidationContext:
		if t.ValidationContext.GetTrustedCa() == nil {
			return nil
		}
		t.ValidationContext.TrustedCa = inline(chain)
	default:
		return nil
	}
	body, err := resource.Marshal(x.Secret)
	if err != nil {
		return nil
	}
	return cache.Variant(rejected, body, rejected.Names)
}

func endedPair() (chain, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"rejected.invalid"}, // RFC 6761: no host has this name
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1, 0), KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	chain = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return chain, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
}
