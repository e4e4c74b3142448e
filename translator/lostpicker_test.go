package translator_test

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/addresses"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// Envoys pass a picker by that this process has lost, where its cluster fails open: by its endpoints alone, because a changed cluster would end
// calls in flight. This process goes on trying to connect to it.
func TestImport_LostPickerIsUnhealthyWhereItsClusterFailsOpen(t *testing.T) {
	id := model.ImportPickerCluster("default", "chat", "east")
	for mode, want := range map[string]corev3.HealthStatus{"FailOpen": corev3.HealthStatus_UNHEALTHY, "FailClose": corev3.HealthStatus_UNKNOWN} {
		for _, variant := range []model.ClusterVariant{model.Plain, model.HealthVariant} {
			s, tr := store.New(), translator.New(config())
			apply := func(ops ...store.Op) translator.Output {
				t.Helper()
				rev, err := s.Apply(ops...)
				if err != nil {
					t.Fatal(err)
				}
				out := tr.Update(s.View(), rev.Changes)
				if out.Err != nil {
					t.Fatal(out.Err)
				}
				return out
			}
			dialect := func(lost bool) store.Op {
				return store.Dialects.Put(&store.Dialect{ObjectMeta: metav1.ObjectMeta{Name: id.String()}, Health: variant == model.HealthVariant, Lost: lost})
			}
			apply(store.AddressPolicies.Put(addresses.Unrestricted()), store.Gateways.Put(&gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gw"}, Spec: gatewayv1.GatewaySpec{
				GatewayClassName: "penstock", Listeners: []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}},
			}}), offerFailing(mode, "chat", "east", "10.1.0.1"), store.HTTPRoutes.Put(importRoute("r", "chat")), dialect(false))
			health := func() corev3.HealthStatus {
				t.Helper()
				load := &endpointv3.ClusterLoadAssignment{}
				if err := proto.Unmarshal(pickerOf(t, tr, resource.Endpoints, id.As(variant)).Body(), load); err != nil {
					t.Fatal(err)
				}
				return load.Endpoints[0].LbEndpoints[0].HealthStatus
			}
			if is := health(); is != corev3.HealthStatus_UNKNOWN {
				t.Errorf("%s: %v before", mode, is)
			}
			out := apply(dialect(true))
			if is := health(); is != want {
				t.Errorf("%s: %v while it is lost, want %v", mode, is, want)
			}
			if len(out.Pickers)+len(out.PickersGone) != 0 {
				t.Errorf("%s: %v and %v are to be probed otherwise", mode, out.Pickers, out.PickersGone)
			}
			for _, d := range out.Deltas {
				for _, r := range d.Upserts {
					if r.Type != resource.Endpoints || !strings.Contains(r.Name, "import-picker") {
						t.Errorf("%s: %v changed", mode, r.Ref)
					}
				}
			}
			if apply(dialect(false)); health() != corev3.HealthStatus_UNKNOWN {
				t.Errorf("%s: %v once it is back", mode, health())
			}
		}
	}
}
