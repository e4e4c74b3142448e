package gatewayapi_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

// A certificate whose key Envoy rejects must be reported. Otherwise its listener would have no
// certificate, without a report.
func TestCertificate_KeysThatEnvoyRejectsAreReported(t *testing.T) {
	must := func(key crypto.Signer, err error) crypto.Signer {
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	t.Setenv("GODEBUG", "rsa1024min=0")
	good := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	for name, c := range map[string]struct {
		key   crypto.Signer // key in the certificate
		ok    bool
		shown crypto.Signer // key in the Secret; nil: the certificate's key
	}{
		"RSA 1024":    {must(rsa.GenerateKey(rand.Reader, 1024)), false, nil},
		"RSA 2048":    {must(rsa.GenerateKey(rand.Reader, 2048)), true, nil},
		"ECDSA P-224": {must(ecdsa.GenerateKey(elliptic.P224(), rand.Reader)), false, nil},
		"ECDSA P-256": {must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), true, nil},
		"ECDSA P-384": {must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader)), true, nil},
		"ECDSA P-521": {must(ecdsa.GenerateKey(elliptic.P521(), rand.Reader)), true, nil},
		"another's":   {must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), false, good},
		"Ed25519":     {must(ed, err), true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cert, key := selfSigned(t, c.key)
			if c.shown != nil {
				_, key = selfSigned(t, c.shown)
			}
			v := view(t, []store.Op{store.Secrets.Put(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"},
				Data:       map[string][]byte{"tls.crt": []byte(cert), "tls.key": []byte(key)},
			})})
			secret, problem := gatewayapi.Certificate(v, "default", "s")
			if ok := problem == ""; ok != c.ok || ok != (secret != nil) {
				t.Errorf("secret %v, problem %q; want a secret or a problem, the secret: %t",
					secret != nil, problem, c.ok)
			}
			if problem := envoyRejects(t, cert, key); (problem == "") != c.ok {
				t.Errorf("Envoy reports %q, want it accepted: %t", problem, c.ok)
			}
		})
	}
}

// envoyRejects returns Envoy's error about a listener's certificate; "" if Envoy accepts it.
func envoyRejects(t *testing.T, cert, key string) string {
	t.Helper()
	socket := fmt.Sprintf(`{"name": "tls", "typed_config": {
		"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
		"common_tls_context": {"tls_certificates": [
		{"certificate_chain": {"inline_string": %q}, "private_key": {"inline_string": %q}}]}}}`, cert, key)
	return envoytest.Validate(t, []byte(bootstrap(socket, regexRoutes("a"))))
}

type judged struct {
	name   string
	key    crypto.Signer
	ok     bool
	change func(*x509.Certificate)
}

func TestCertificate_IsJudgedAsEnvoyDoes(t *testing.T) {
	t.Setenv("GODEBUG", "x509negativeserial=1") // as in cmd/penstock
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	unnamed := func(c *x509.Certificate) { c.Subject, c.DNSNames = pkix.Name{}, nil }
	extension := func(value []byte, id ...int) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.ExtraExtensions = []pkix.Extension{{Id: id, Value: value}} }
	}
	id := &url.URL{Scheme: "spiffe", Host: "a", Path: "/b"}
	for _, c := range []judged{
		{"no name", ec, false, unnamed},
		{"an organization alone", ec, false, func(c *x509.Certificate) {
			unnamed(c)
			c.Subject.Organization = []string{"x"}
		}},
		{"an email address alone", ec, false, func(c *x509.Certificate) {
			unnamed(c)
			c.EmailAddresses = []string{"a@b"}
		}},
		{"a URI alone", ec, true, func(c *x509.Certificate) { unnamed(c); c.URIs = []*url.URL{id} }},
		{"an address alone", ec, true, func(c *x509.Certificate) {
			unnamed(c)
			c.IPAddresses = []net.IP{net.IPv4(1, 2, 3, 4)}
		}},
		{"a common name alone", ec, true, func(c *x509.Certificate) { c.DNSNames = nil }},
		{"ECDSA that may not sign", ec, false, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyEncipherment }},
		{"ECDSA with a damaged key usage", ec, false, extension([]byte{3, 2, 7, 0x80, 5, 0}, 2, 5, 29, 15)},
		{"RSA that may not sign", rsaKey, true, func(c *x509.Certificate) {
			c.KeyUsage = x509.KeyUsageKeyEncipherment
		}},
		{"must-staple", ec, false, extension([]byte{0x30, 3, 2, 1, 5}, 1, 3, 6, 1, 5, 5, 7, 1, 24)},
		{"of clients", ec, true, func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}},
		{"a reserved code point", ec, false, func(c *x509.Certificate) { c.Subject.CommonName = "\uffff" }},
		{"a negative serial number", ec, true, nil},
		{"expired", ec, true, func(c *x509.Certificate) { c.NotAfter = time.Unix(2, 0) }},
		{"not valid yet", ec, true, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }},
		{"of an authority", ec, true, func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }},
	} {
		t.Run(c.name, c.check)
	}
}

func (c *judged) check(t *testing.T) {
	change := c.change
	if change == nil {
		change = func(*x509.Certificate) {}
	}
	cert, key := selfSigned(t, c.key, change)
	if c.change == nil {
		block, _ := pem.Decode([]byte(cert))
		// The signature becomes invalid, but nothing verifies it.
		block.Bytes = bytes.Replace(block.Bytes, []byte{2, 1, 1, 0x30}, []byte{2, 1, 0x81, 0x30}, 1)
		cert = string(pem.EncodeToMemory(block))
	}
	gw := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gw"}}
	refs := []gatewayv1.SecretObjectReference{{Name: "s"}}
	gw.Spec.Listeners = []gatewayv1.Listener{{
		Name: "a", Port: 443, Protocol: gatewayv1.HTTPSProtocolType,
		TLS: &gatewayv1.ListenerTLSConfig{CertificateRefs: refs},
	}}
	w := decide(view(t, []store.Op{store.Gateways.Put(gw), store.Secrets.Put(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"},
		Data:       map[string][]byte{"tls.crt": []byte(cert), "tls.key": []byte(key)},
	})}), gatewayapi.Config{Controller: "penstock.dev/gateway-controller", AnyClass: true})
	if l := w.gateways["default/gw"].Listeners[0]; (len(l.Secrets) > 0) != c.ok {
		t.Errorf("the listener presents %q, want a certificate: %t", l.Secrets, c.ok)
	}
	if problem := envoyRejects(t, cert, key); (problem == "") != c.ok {
		t.Errorf("Envoy reports %q, want it accepted: %t", problem, c.ok)
	}
}
