package translator_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
)

// The policy's CA bundle appears late. Before that, no certificate is trusted, and metrics are not
// read in cleartext.
func TestBackendTLSPolicy_MetricsOfItsPoolAreReadOverTLS(t *testing.T) {
	s, tr := store.New(),
		translator.New(translator.Config{Controller: "penstock.dev/gateway-controller", Pickers: config().Pickers})
	pool := &inferencev1.InferencePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pool"}}
	pool.Spec.Selector.MatchLabels = map[inferencev1.LabelKey]inferencev1.LabelValue{"app": "m"}
	pool.Spec.TargetPorts = []inferencev1.Port{{Number: 8000}}
	policy := &gatewayv1.BackendTLSPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "tls"}}
	policy.Spec.TargetRefs = []gatewayv1.LocalPolicyTargetReferenceWithSectionName{{
		LocalPolicyTargetReference: gatewayv1.LocalPolicyTargetReference{
			Group: "inference.networking.k8s.io", Kind: "InferencePool", Name: "pool",
		},
	}}
	policy.Spec.Validation.Hostname = "llm.example.com"
	policy.Spec.Validation.CACertificateRefs = []gatewayv1.LocalObjectReference{{Kind: "ConfigMap", Name: "ca"}}
	step := func(ops ...store.Op) translator.PickerPool {
		t.Helper()
		rev, err := s.Apply(ops...)
		if err != nil {
			t.Fatal(err)
		}
		out := tr.Update(s.View(), rev.Changes)
		if out.Err != nil || len(out.Pools) != 1 {
			t.Fatalf("%d pools, %v, want 1", len(out.Pools), out.Err)
		}
		return out.Pools[0]
	}
	if p := step(store.InferencePools.Put(pool)); p.TLS != nil {
		t.Errorf("without a policy: got %+v, want no TLS", p.TLS)
	}
	if p := step(store.BackendTLSPolicies.Put(policy)); p.TLS == nil || p.CA == nil || len(p.CA) > 0 {
		t.Errorf("without its bundle: got %+v, %q; want TLS with an empty CA", p.TLS, p.CA)
	}
	ca := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ca"},
		Data: map[string]string{"ca.crt": string(keyPair(t, "ca")[0])}}
	if p := step(store.ConfigMaps.Put(ca)); p.TLS == nil || p.TLS.SNI != "llm.example.com" || len(p.TLS.SANs) != 1 ||
		len(p.CA) == 0 {
		t.Errorf("with its bundle: got %+v, %q; want llm.example.com, one SAN and a CA", p.TLS, p.CA)
	}
	if p := step(store.BackendTLSPolicies.Delete("ns/tls")); p.TLS != nil {
		t.Errorf("after its deletion: got %+v, want no TLS", p.TLS)
	}
}
