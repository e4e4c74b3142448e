package gatewayapi_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

// A certificate that Envoy rejects would leave its listener without one, and no report would explain why.
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
		key   crypto.Signer // of the certificate
		ok    bool
		shown crypto.Signer // in the Secret; nil: the certificate's
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
				t.Errorf("secret %v, problem %q", secret != nil, problem)
			}
			socket := fmt.Sprintf(`{"name": "tls", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
				"common_tls_context": {"tls_certificates": [{"certificate_chain": {"inline_string": %q}, "private_key": {"inline_string": %q}}]}}}`, cert, key)
			if problem := envoytest.Validate(t, []byte(bootstrap(socket, regexRoutes("a")))); (problem == "") != c.ok {
				t.Errorf("Envoy reports %q", problem)
			}
		})
	}
}
