package gatewayapi

import (
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
)

// certificate resolves a listener's reference to a Secret: its SDS name, or a false ResolvedRefs condition.
func (b *listenerBuilder) certificate(ref gatewayv1.SecretObjectReference) (name string, cond report.Condition) {
	target := report.Ref{Kind: "Secret", Namespace: b.gw.Namespace, Name: string(ref.Name)}
	if ref.Group != nil {
		target.Group = string(*ref.Group)
	}
	if ref.Kind != nil && *ref.Kind != "" {
		target.Kind = string(*ref.Kind)
	}
	if ref.Namespace != nil && *ref.Namespace != "" {
		target.Namespace = string(*ref.Namespace)
	}
	invalid := func(reason gatewayv1.ListenerConditionReason, format string, args ...any) (string, report.Condition) {
		return "", falseCondition(gatewayv1.ListenerConditionResolvedRefs, reason, fmt.Sprintf(format, args...))
	}
	switch {
	case target.Group != "" || target.Kind != "Secret":
		return invalid(gatewayv1.ListenerReasonInvalidCertificateRef, "certificates of kind %s (%q) are not supported: use a Secret", target.Kind, target.Group)
	case !Granted(b.r, b.out.Ref, target):
		return invalid(gatewayv1.ListenerReasonRefNotPermitted, "no ReferenceGrant in namespace %s lets Gateways of namespace %s use %s", target.Namespace, b.gw.Namespace, target)
	}
	if _, problem := Certificate(b.r, target.Namespace, target.Name); problem != "" {
		return invalid(gatewayv1.ListenerReasonInvalidCertificateRef, "%s", problem)
	}
	return model.SecretName(target.Namespace, target.Name), report.Condition{}
}

// Certificate reads a certificate and its key from a Secret and checks that Envoy can use them. problem is a sentence
// that names the Secret if it cannot; "" otherwise. Dates are not checked: that would need a clock.
func Certificate(r store.Reader, namespace, name string) (secret *model.Secret, problem string) {
	s, ok := store.Secrets.Get(r, namespace+"/"+name)
	if !ok {
		return nil, fmt.Sprintf("Secret %s/%s does not exist", namespace, name)
	}
	chain, key := secretData(s, corev1.TLSCertKey), secretData(s, corev1.TLSPrivateKeyKey)
	for _, part := range []struct {
		key  string
		data []byte
	}{{corev1.TLSCertKey, chain}, {corev1.TLSPrivateKeyKey, key}} {
		if len(part.data) == 0 {
			return nil, fmt.Sprintf("Secret %s/%s has no %s", namespace, name, part.key)
		}
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Sprintf("Secret %s/%s: %v", namespace, name, err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, fmt.Sprintf("Secret %s/%s: %v", namespace, name, err)
	}
	if k, ok := leaf.PublicKey.(*rsa.PublicKey); ok && k.N.BitLen() < 2048 {
		return nil, fmt.Sprintf("Secret %s/%s: Envoy takes RSA keys of 2048 bits or more, this one has %d", namespace, name, k.N.BitLen())
	}
	return &model.Secret{Name: model.SecretName(namespace, name), Chain: chain, Key: key, Owner: store.Secrets.Ref(s)}, ""
}

// secretData is an entry of a Secret, which files may also give as text.
func secretData(s *corev1.Secret, key string) []byte {
	if text, ok := s.StringData[key]; ok {
		return []byte(text)
	}
	return s.Data[key]
}

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
