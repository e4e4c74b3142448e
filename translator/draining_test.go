package translator_test

import (
	"slices"
	"strings"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/xds/resource"
)

// A pick may be on its way to Envoy while its server begins to drain. If all servers of a pool
// drain, they stay endpoints for such picks. Otherwise Envoy gets only the other servers.
func TestDraining_TheLastServersOfAPoolStayForPicksOnTheirWay(t *testing.T) {
	w := newNamed(t)
	pool := &inferencev1.InferencePool{ObjectMeta: inDefault("chat")}
	pool.Spec.Selector.MatchLabels = map[inferencev1.LabelKey]inferencev1.LabelValue{"app": "chat"}
	pool.Spec.TargetPorts = []inferencev1.Port{{Number: 8000}}
	w.apply(store.InferencePools.Put(pool),
		routeTo("chat", "inference.networking.k8s.io", "InferencePool", "chat", nil))
	for _, c := range []struct{ draining, want string }{ // draining has the numbers of the draining servers
		{"", "10.2.0.1 10.2.0.2"}, {"1", "10.2.0.2"}, {"1 2", "10.2.0.1 10.2.0.2"}, {"2", "10.2.0.1"}, {"gone", ""},
	} {
		servers := &v1alpha1.ModelServers{ObjectMeta: inDefault("chat")}
		for _, n := range []string{"1", "2"} {
			servers.Spec.Servers = append(servers.Spec.Servers, v1alpha1.ModelServer{Address: "10.2.0." + n,
				Labels: map[string]string{"app": "chat"}, Draining: strings.Contains(c.draining, n)})
		}
		op := store.ModelServers.Put(servers)
		if c.draining == "gone" {
			op = store.ModelServers.Delete("default/chat")
		}
		rev, err := w.store.Apply(op)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range w.tr.Update(w.store.View(), rev.Changes).Deltas {
			for _, r := range d.Upserts {
				if r.Type == resource.Endpoints && r.Name == "pool/default/chat" {
					got = addressesOf(t, r)
				}
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("draining %q: Envoy has %v, want %s", c.draining, got, c.want)
		}
	}
}

func addressesOf(t *testing.T, r *resource.Resource) (out []string) {
	t.Helper()
	var load endpointv3.ClusterLoadAssignment
	if err := proto.Unmarshal(r.Body(), &load); err != nil {
		t.Fatal(err)
	}
	for _, locality := range load.Endpoints {
		for _, e := range locality.LbEndpoints {
			if a := e.GetEndpoint().Address.GetSocketAddress(); a != nil {
				out = append(out, a.Address)
			}
		}
	}
	slices.Sort(out)
	return out
}
