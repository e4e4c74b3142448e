package translator_test

import (
	"bytes"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// A changed cluster would end the calls that wait for a pick, so a new key must reach Envoys only
// as a secret.
func TestPickerKey_RotationChangesNoCluster(t *testing.T) {
	s := store.New()
	authority := func(key string) store.Op {
		return store.Authorities.Put(&store.Authority{
			ObjectMeta: metav1.ObjectMeta{Name: store.OwnAuthority}, CA: []byte("certificates"), Key: key,
		})
	}
	gw := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gw"},
		Spec: gatewayv1.GatewaySpec{
			GatewayClassName: "penstock", Listeners: []gatewayv1.Listener{
				{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType},
			},
		}}
	if _, err := s.Apply(authority("first"), store.Gateways.Put(gw)); err != nil {
		t.Fatal(err)
	}
	cfg := config()
	cfg.PickerName = "penstock.system.svc"
	tr := translator.New(cfg)
	if out := tr.Update(s.View(), store.Everything(s.View())); out.Err != nil {
		t.Fatal(out.Err)
	}
	cluster := resource.Ref{Type: resource.Cluster, Name: model.OurPicker.String()}
	var refs []resource.Ref
	for _, r := range tr.Resources("default/gw") {
		if r.Ref == cluster {
			refs = r.Refs
		}
	}
	for _, name := range []string{model.OwnKey, model.OwnTrust} {
		secret := resource.Ref{Type: resource.Secret, Name: name}
		if !slices.Contains(refs, secret) || !slices.ContainsFunc(tr.Resources("default/gw"),
			func(r *resource.Resource) bool { return r.Ref == secret }) {
			t.Errorf("the picker's cluster does not come with %s", name)
		}
	}
	rev, err := s.Apply(authority("second"))
	if err != nil {
		t.Fatal(err)
	}
	out := tr.Update(s.View(), rev.Changes)
	if out.Err != nil || len(out.Deltas) != 1 {
		t.Fatalf("%v, %d deltas, want 1", out.Err, len(out.Deltas))
	}
	for _, r := range out.Deltas[0].Upserts {
		if r.Name != model.OwnKey {
			t.Errorf("%v changed, want %s alone", r.Ref, model.OwnKey)
		}
	}
	if len(out.Deltas[0].Upserts) != 1 || len(out.Deltas[0].Removes) != 0 {
		t.Errorf("upserts %v, removes %v, want 1 of them and none", out.Deltas[0].Upserts, out.Deltas[0].Removes)
	}
}

func TestPickerKey_EachGatewayGetsItsOwn(t *testing.T) {
	s := store.New()
	ops := []store.Op{
		store.Authorities.Put(&store.Authority{ObjectMeta: metav1.ObjectMeta{Name: store.OwnAuthority},
			CA: []byte("certificates"), Key: "root"}),
	}
	for _, name := range []string{"one", "two"} {
		ops = append(ops,
			store.Gateways.Put(&gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
				Spec: gatewayv1.GatewaySpec{
					GatewayClassName: "penstock", Listeners: []gatewayv1.Listener{
						{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType},
					},
				}}))
	}
	if _, err := s.Apply(ops...); err != nil {
		t.Fatal(err)
	}
	cfg := config()
	cfg.PickerName = "penstock.system.svc"
	tr := translator.New(cfg)
	if out := tr.Update(s.View(), store.Everything(s.View())); out.Err != nil {
		t.Fatal(out.Err)
	}
	for _, gateway := range []string{"default/one", "default/two"} {
		for _, r := range tr.Resources(gateway) {
			if r.Name == model.OwnKey && !bytes.Contains(r.Body(), []byte(model.PickKey("root", gateway))) {
				t.Errorf("%s has another key, want its own", gateway)
			}
			if bytes.Contains(r.Body(), []byte("root")) {
				t.Errorf("%s has the root key in %v, want it in no resource", gateway, r.Ref)
			}
		}
	}
}
