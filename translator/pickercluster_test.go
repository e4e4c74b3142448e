package translator_test

import (
	"slices"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/addresses"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

func pickerOf(t *testing.T, tr *translator.Translator, kind resource.Type, id model.ClusterID) *resource.Resource {
	t.Helper()
	all := slices.DeleteFunc(tr.Resources("default/gw"), func(r *resource.Resource) bool {
		got, _ := model.ParseClusterID(r.Name)
		return r.Type != kind || got.InAnyConfig() != id
	})
	if len(all) != 1 {
		t.Fatalf("%d %v %s, want 1", len(all), kind, id)
	}
	return all[0]
}

// If a picker's cluster changes, Envoy ends the picker's calls in flight. So only a picker with
// another configuration gets another cluster.
func TestExternalPicker_ClusterOfAnotherConfigurationIsAnother(t *testing.T) {
	s, tr := store.New(), translator.New(config())
	apply := func(ops ...store.Op) (cluster *clusterv3.Cluster, changed bool) {
		t.Helper()
		rev, err := s.Apply(ops...)
		if err != nil {
			t.Fatal(err)
		}
		out := tr.Update(s.View(), rev.Changes)
		if out.Err != nil {
			t.Fatal(out.Err)
		}
		cluster = &clusterv3.Cluster{}
		if err := proto.Unmarshal(pickerOf(t, tr, resource.Cluster,
			model.ImportPickerCluster("default", "chat", "east")).Body(), cluster); err != nil {
			t.Fatal(err)
		}
		for _, d := range out.Deltas {
			changed = changed || slices.ContainsFunc(d.Upserts, func(r *resource.Resource) bool {
				return r.Ref == resource.Ref{Type: resource.Cluster, Name: cluster.Name}
			})
		}
		return cluster, changed
	}
	offer := func(protocol, address string) store.Op {
		o := &store.Offer{Import: "chat", Cluster: inferenceapi.ImportedCluster{
			Name: "east", RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000,
			Endpoints: []inferenceapi.ImportedEndpoint{{Address: "10.1.0.1"}},
			EndpointPicker: &inferenceapi.EndpointPickerImport{
				Service: inferenceapi.ServiceImports{
					{Addresses: []string{address}, Ports: []inferenceapi.Port{{Number: 9002, AppProtocol: protocol}}},
				},
			},
		}}
		o.Namespace, o.Name = "default", store.OfferName("chat", "east")
		return store.Offers.Put(o)
	}
	tls, _ := apply(store.AddressPolicies.Put(addresses.Unrestricted()),
		store.Gateways.Put(&gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gw"},
			Spec: gatewayv1.GatewaySpec{
				GatewayClassName: "penstock", Listeners: []gatewayv1.Listener{
					{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType},
				},
			}}), offer("", "192.0.2.9"), store.HTTPRoutes.Put(importRoute("r", "chat")))
	if moved, changed := apply(offer("", "192.0.2.10")); changed || moved.Name != tls.Name {
		t.Errorf("at another address cluster %s is %s, changed %t; want the same, unchanged",
			tls.Name, moved.Name, changed)
	}
	cleartext, _ := apply(offer("kubernetes.io/h2c", "192.0.2.10"))
	if cleartext.Name == tls.Name || cleartext.AltStatName != tls.AltStatName {
		t.Errorf("in cleartext cluster %s is %s, and its statistics are named %s and %s; want another name, the "+
			"same statistics", tls.Name, cleartext.Name, tls.AltStatName, cleartext.AltStatName)
	}
	if again, _ := apply(offer("", "192.0.2.10")); again.Name != tls.Name {
		t.Errorf("with TLS again cluster %s is %s, want the first name", tls.Name, again.Name)
	}
}
