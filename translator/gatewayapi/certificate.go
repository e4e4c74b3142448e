package gatewayapi

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/certificates"
	"github.com/penstock-project/penstock/translator/model"
)

func (b *listenerBuilder) certificate(ref gatewayv1.SecretObjectReference) (name string, leaf *x509.Certificate,
	cond report.Condition) {
	target := secretRef(b.owner.Namespace, ref)
	secret, leaf, problem := usableCertificate(b.r, b.owner, target)
	if problem == "" {
		if err := nameless(leaf); err != nil {
			problem = fmt.Sprintf("Secret %s: %v", target.Key(), err)
		}
	}
	if problem == "" {
		return secret.Name, leaf, report.Condition{}
	}
	reason := gatewayv1.ListenerReasonInvalidCertificateRef
	if !Granted(b.r, b.owner, target) {
		reason = gatewayv1.ListenerReasonRefNotPermitted
	}
	return "", nil, falseCondition(gatewayv1.ListenerConditionResolvedRefs, reason, problem)
}

func secretRef(namespace string, ref gatewayv1.SecretObjectReference) report.Ref {
	kind := gatewayv1.Kind(cmp.Or(string(ptr.Deref(ref.Kind, "")), "Secret"))
	return backendRef(namespace,
		&gatewayv1.BackendObjectReference{Group: ref.Group, Kind: &kind, Namespace: ref.Namespace, Name: ref.Name})
}

func usableCertificate(r store.Reader, from, target report.Ref) (secret *model.Secret, leaf *x509.Certificate,
	problem string) {
	switch {
	case target.Group != "" || target.Kind != "Secret":
		return nil, nil,
			fmt.Sprintf("certificates of kind %s (%q) are not supported: use a Secret", target.Kind, target.Group)
	case !Granted(r, from, target):
		return nil, nil, noGrant(from, target)
	}
	return readCertificate(r, target.Namespace, target.Name)
}

// Certificate reads a certificate and its key from a Secret, if Envoy can use them. It does not
// check dates.
func Certificate(r store.Reader, namespace, name string) (secret *model.Secret, problem string) {
	secret, _, problem = readCertificate(r, namespace, name)
	return secret, problem
}

func readCertificate(r store.Reader, namespace, name string) (secret *model.Secret, leaf *x509.Certificate,
	problem string) {
	s, ok := store.Secrets.Get(r, objectid.Join(namespace, name))
	if !ok {
		ref := store.RefOf(store.Secrets, objectid.Join(namespace, name))
		return nil, nil, NotExist(r, ref, ref)
	}
	chain, key := SecretData(s, corev1.TLSCertKey), SecretData(s, corev1.TLSPrivateKeyKey)
	for _, part := range []struct {
		key  string
		data []byte
	}{{corev1.TLSCertKey, chain}, {corev1.TLSPrivateKeyKey, key}} {
		if len(part.data) == 0 {
			return nil, nil, fmt.Sprintf("Secret %s/%s has no %s", namespace, name, part.key)
		}
	}
	pair, err := certificates.ReadPair(chain, key)
	if err == nil {
		leaf = pair.Chain[0]
		err = usable(leaf)
	}
	if err == nil {
		chain, key, err = encode(pair)
	}
	if err != nil {
		return nil, nil, fmt.Sprintf("Secret %s/%s: %v", namespace, name, err)
	}
	owners := []report.Ref{store.Secrets.Ref(s)}
	return &model.Secret{Name: model.SecretName(namespace, name), Chain: chain, Key: key, Owners: owners}, leaf, ""
}

// encode writes PEM that Envoy accepts. Envoy rejects some PEM that Go accepts, such as PEM with
// headers.
func encode(pair *certificates.Pair) (chain, key []byte, err error) {
	for _, c := range pair.Chain {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	der, err := x509.MarshalPKCS8PrivateKey(pair.Key)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", corev1.TLSPrivateKeyKey, err)
	}
	return chain, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// A certificate with mustStaple demands OCSP responses (RFC 7633), which Penstock does not fetch.
var mustStaple = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 24}

// usable returns why Envoy 1.40 rejects a certificate that Go accepts.
func usable(leaf *x509.Certificate) error {
	if slices.ContainsFunc(leaf.Extensions, demandsOCSP) {
		return errors.New("clients demand OCSP responses with it (must-staple), which are not supported: " +
			"issue it without")
	}
	switch k := leaf.PublicKey.(type) {
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < 2048 {
			return fmt.Errorf("the RSA key has %d bits and Envoy rejects less than 2048: use a longer key", bits)
		}
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P224() {
			return errors.New("the ECDSA key is on P-224, which Envoy rejects: use P-256, P-384 or P-521")
		}
		for _, e := range leaf.Extensions {
			var usage asn1.BitString
			if !e.Id.Equal(keyUsage) {
				continue
			}
			if rest, err := asn1.Unmarshal(e.Value, &usage); err != nil || len(rest) > 0 || usage.At(0) == 0 {
				return errors.New("its key usage has no digitalSignature, without which Envoy rejects an ECDSA key: " +
					"add it, or leave the key usage out")
			}
		}
	}
	return nil
}

func demandsOCSP(e pkix.Extension) bool {
	return e.Id.Equal(mustStaple) && bytes.Equal(e.Value, []byte{0x30, 3, 2, 1, 5})
}

var keyUsage = asn1.ObjectIdentifier{2, 5, 29, 15}

var commonName = asn1.ObjectIdentifier{2, 5, 4, 3}

func nameless(leaf *x509.Certificate) error {
	if !certificates.HasAlternativeName(leaf) && leaf.Subject.CommonName == "" {
		return errors.New("it is for no name, and Envoy rejects that: issue it for the host names of the listener")
	}
	if names := leaf.Subject.Names; leaf.Subject.CommonName == "" &&
		slices.ContainsFunc(names, func(n pkix.AttributeTypeAndValue) bool { return n.Type.Equal(commonName) }) {
		return errors.New("its common name is empty, and Envoy rejects that: issue it without, or with a name")
	}
	return nil
}

func fits(hostname string, leaves []*x509.Certificate) bool {
	if hostname == "*" {
		return true
	}
	return slices.ContainsFunc(leaves, func(c *x509.Certificate) bool {
		return c.VerifyHostname(strings.Replace(hostname, "*", "any", 1)) == nil
	})
}

// SecretData returns an entry of a Secret. A Secret in a file may have stringData.
func SecretData(s *corev1.Secret, key string) []byte {
	if text, ok := s.StringData[key]; ok {
		return []byte(text)
	}
	return s.Data[key]
}

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
