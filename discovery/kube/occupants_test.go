package kube_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/discovery/store"
)

func TestOccupant_FollowsServicesAndGeneratedSlices(t *testing.T) {
	const generated = "endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io, "
	text := func(namespace, name, mark, address string) string {
		return strings.NewReplacer("namespace: default", "namespace: "+namespace, "{kubernetes.io", "{"+mark+"kubernetes.io", "NAME", name, "ADDRESS", address).Replace(slice)
	}
	service := func(name, address string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {namespace: default, name: %s}, spec: {clusterIP: %s, clusterIPs: [%s]}}", name, address, address)
	}
	r := begin(t, func(api *kubetest.Server) {
		api.Apply(t, "endpointslices", text("one", "web-1", generated, "10.0.0.1"))
		api.Apply(t, "endpointslices", text("two", "web-1", generated, "10.0.0.1"))
		api.Apply(t, "endpointslices", text("three", "web-1", "", "10.0.0.1")) // its author may not own the address
		api.Apply(t, "services", service("web", "10.96.0.7"))
	}).synced()
	r.park() // the slices leave the store
	want := func(addresses ...string) (out []kube.Demand) {
		for _, a := range addresses {
			out = append(out, kube.Demand{Table: "Occupant", Index: store.ByID, Key: a})
		}
		return out
	}
	r.want(want("10.0.0.1", "10.96.0.7", "10.0.0.9"))
	is := func(address, clusters, endpoints string) string {
		o, ok := store.Occupants.Get(r.store.View(), address)
		if !ok {
			o = &store.Occupant{}
		}
		if got := strings.Join(o.Clusters, " ") + "|" + strings.Join(o.Endpoints, " "); got != clusters+"|"+endpoints {
			return fmt.Sprintf("%s is occupied by %q", address, got)
		}
		return ""
	}
	for _, problem := range []string{is("10.0.0.1", "", "one/web two/web"), is("10.96.0.7", "default/web", ""), is("10.0.0.9", "", "")} {
		if problem != "" {
			t.Errorf("right after Want %s", problem)
		}
	}
	r.api.Apply(t, "endpointslices", text("two", "web-1", generated, "10.0.0.9"))
	r.eventually(func() string { return is("10.0.0.1", "", "one/web") + is("10.0.0.9", "", "two/web") })
	r.api.Apply(t, "services", service("web", "10.96.0.8"))
	r.eventually(func() string { return is("10.96.0.7", "", "") })
	r.source.Want(nil, want("10.0.0.1", "10.96.0.7", "10.0.0.9"))
	r.flush()
	if n := len(store.Occupants.All(r.store.View())); n != 0 {
		t.Errorf("%d addresses are left that translation does not read", n)
	}
}
