package gatewayapi_test

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/certificates"
	"github.com/penstock-project/penstock/translator/gatewayapi"
)

// A Secret is accepted only if it has a certificate with its key. Envoy gets the same chain and
// key, as PEM without other content.
func FuzzCertificate_AgreesWithTLS(f *testing.F) {
	seeds := pemSeeds(f)
	for i := 0; i < len(seeds); i += 2 {
		f.Add(seeds[i], seeds[i+1])
	}
	f.Fuzz(func(t *testing.T, chain, key []byte) {
		v := view(t, []store.Op{store.Secrets.Put(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"},
			Data:       map[string][]byte{corev1.TLSCertKey: chain, corev1.TLSPrivateKeyKey: key},
		})})
		secret, problem := gatewayapi.Certificate(v, "default", "s")
		if (secret == nil) != (problem != "") {
			t.Fatalf("secret %v, problem %q; want exactly one of them", secret != nil, problem)
		}
		if secret == nil {
			return // TestCertificate_KeysThatEnvoyRejectsAreReported covers keys
		}
		want, err := certificates.ReadPair(chain, key)
		if err != nil {
			t.Fatalf("accepted, and cannot be read: %v", err)
		}
		got, err := certificates.ReadPair(secret.Chain, secret.Key)
		if err != nil {
			t.Fatalf("what Envoy gets cannot be read: %v", err)
		}
		sameChain(t, raw(got.Chain), raw(want.Chain))
		if !got.Key.(interface {
			Equal(x crypto.PrivateKey) bool
		}).Equal(want.Key) {
			t.Error("Envoy gets another key")
		}
		if pair, err := tls.X509KeyPair(chain, key); err == nil {
			sameChain(t, raw(got.Chain), pair.Certificate)
		}
		onlyPEM(t, secret.Chain)
		onlyPEM(t, secret.Key)
	})
}

// pemSeeds returns certificates and keys in turn.
func pemSeeds(f *testing.F) (out [][]byte) {
	f.Helper()
	archive, err := txtar.ParseFile("testdata/fuzz-seeds.pem.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range archive.Files {
		out = append(out, file.Data)
	}
	return out
}

func raw(chain []*x509.Certificate) (out [][]byte) {
	for _, c := range chain {
		out = append(out, c.Raw)
	}
	return out
}

func sameChain(t *testing.T, got, want [][]byte) {
	t.Helper()
	if !bytes.Equal(bytes.Join(got, nil), bytes.Join(want, nil)) {
		t.Errorf("Envoy gets %d certificates that differ from the %d given", len(got), len(want))
	}
	for _, der := range got {
		if _, err := certificates.Read(der); err != nil {
			t.Errorf("Envoy gets a certificate that cannot be parsed, want one that can: %v", err)
		}
	}
}

// onlyPEM checks that a text has only blocks as pem.Encode writes them, without headers, because
// other parsers read other forms differently.
func onlyPEM(t *testing.T, text []byte) {
	t.Helper()
	for rest := text; len(rest) > 0; {
		block, next := pem.Decode(rest)
		if block == nil || len(block.Headers) > 0 ||
			!bytes.Equal(pem.EncodeToMemory(block), rest[:len(rest)-len(next)]) {
			t.Fatalf("Envoy gets %q, want plain PEM", rest)
		}
		rest = next
	}
}

// One unreadable certificate must invalidate the bundle, so that missing trust is reported.
func FuzzCABundle_AgreesWithX509(f *testing.F) {
	seeds := pemSeeds(f)
	for i := 0; i < len(seeds); i += 2 {
		f.Add(seeds[i])
		f.Add(slices.Concat(seeds[0], seeds[i]))
	}
	gw := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gw"}}
	gw.Spec.TLS = &gatewayv1.GatewayTLSConfig{Frontend: &gatewayv1.FrontendTLSConfig{Default: gatewayv1.TLSConfig{
		Validation: &gatewayv1.FrontendTLSValidation{
			CACertificateRefs: []gatewayv1.ObjectReference{{Kind: "ConfigMap", Name: "ca"}},
		},
	}}}
	f.Fuzz(func(t *testing.T, bundle []byte) {
		v := view(t, []store.Op{store.Gateways.Put(gw), store.ConfigMaps.Put(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ca"},
			BinaryData: map[string][]byte{"ca.crt": bundle},
		})})
		secret, ok := gatewayapi.ClientTrust(v, "default/gw", 0)
		var want [][]byte
		valid := true
		for _, block := range certificates.Blocks(bundle) {
			c, err := certificates.Read(block)
			if err != nil {
				valid = false
				continue
			}
			if !slices.ContainsFunc(want, func(der []byte) bool { return bytes.Equal(der, c.Raw) }) {
				want = append(want, c.Raw)
			}
		}
		if ok != (valid && len(want) > 0) {
			t.Fatalf("trusted: %v, with %d certificates that can be read (all: %v), want %v",
				ok, len(want), valid, valid && len(want) > 0)
		}
		if !ok {
			return
		}
		onlyPEM(t, secret.CA)
		var got [][]byte
		for rest := secret.CA; len(rest) > 0; {
			var block *pem.Block
			block, rest = pem.Decode(rest)
			got = append(got, block.Bytes)
		}
		sameChain(t, got, want)
	})
}
