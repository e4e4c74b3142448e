package translator_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// A Secret has no status, so the owners of the listeners that present it must get Envoy's NACK.
func TestSecret_IsOwnedByThoseWhoseListenersNeedIt(t *testing.T) {
	https := func(name, host, secret string) gatewayv1.Listener {
		return gatewayv1.Listener{
			Name: gatewayv1.SectionName(name), Port: 443, Protocol: gatewayv1.HTTPSProtocolType,
			Hostname: ptr(gatewayv1.Hostname(host)), TLS: &gatewayv1.ListenerTLSConfig{
				CertificateRefs: []gatewayv1.SecretObjectReference{{Name: gatewayv1.ObjectName(secret)}},
			},
		}
	}
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
	gw := &gatewayv1.Gateway{ObjectMeta: named("gw")}
	gw.Spec.GatewayClassName = "penstock"
	gw.Spec.Listeners = []gatewayv1.Listener{
		https("a", "a.test", "a"), {Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType},
	}
	gw.Spec.AllowedListeners = &gatewayv1.AllowedListeners{
		Namespaces: &gatewayv1.ListenerNamespaces{From: ptr(gatewayv1.NamespacesFromAll)},
	}
	set := &gatewayv1.ListenerSet{ObjectMeta: named("set")}
	set.Spec.ParentRef = gatewayv1.ParentGatewayReference{Name: "gw"}
	set.Spec.Listeners = []gatewayv1.ListenerEntry{gatewayv1.ListenerEntry(https("b", "b.test", "b"))}
	ops := []store.Op{store.Gateways.Put(gw), store.ListenerSets.Put(set)}
	for _, name := range []string{"a", "b"} {
		pair := keyPair(t, name+".test")
		ops = append(ops, store.Secrets.Put(&corev1.Secret{
			ObjectMeta: named(name), Data: map[string][]byte{"tls.crt": pair[0], "tls.key": pair[1]},
		}))
	}
	_, tr := exporting(t, ops...)
	for name, want := range map[string][]string{
		"a": {"Gateway default/gw", "Secret default/a"}, "b": {"ListenerSet default/set", "Secret default/b"},
	} {
		var got []string
		for _, o := range resourceOf(t, tr, resource.Secret, model.SecretName("default", name)).Owners() {
			got = append(got, o.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("secret %s: %q, want %q", name, got, want)
		}
	}
}
