package kube_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/discovery/store"
)

const generated = "endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io, "

// sliceIn returns an EndpointSlice of the Service web in a namespace. mark is generated for an
// EndpointSlice that Kubernetes made, and "" for one that a user wrote.
func sliceIn(namespace, name, mark, address string) string {
	return strings.NewReplacer("namespace: default", "namespace: "+namespace, "{kubernetes.io",
		"{"+mark+"kubernetes.io", "NAME", name, "ADDRESS", address).Replace(slice)
}

func TestOccupant_FollowsServicesAndGeneratedSlices(t *testing.T) {
	service := func(name, address string) string {
		return fmt.Sprintf(
			"{apiVersion: v1, kind: Service, metadata: {namespace: default, name: %s}, spec: {clusterIP: %s, "+
				"clusterIPs: [%s]}}", name, address, address)
	}
	r := begin(t, func(api *kubetest.Server) {
		api.Apply(t, "endpointslices", sliceIn("one", "web-1", generated, "10.0.0.1"))
		api.Apply(t, "endpointslices", sliceIn("two", "web-1", generated, "10.0.0.1"))
		// A user wrote this EndpointSlice, and need not own the address.
		api.Apply(t, "endpointslices", sliceIn("three", "web-1", "", "10.0.0.1"))
		api.Apply(t, "services", service("web", "10.96.0.7"))
	}).synced()
	r.park() // the EndpointSlices leave the store
	want := func(addresses ...string) (out []kube.Demand) {
		for _, a := range addresses {
			out = append(out, kube.Demand{Table: "Occupant", Index: store.ByID, Key: a})
		}
		return out
	}
	r.want(want("10.0.0.1", "10.96.0.7", "10.0.0.9"))
	occupied := func(address, clusters, endpoints string) string {
		o, ok := store.Occupants.Get(r.Store.View(), address)
		if !ok {
			o = &store.Occupant{}
		}
		if got := strings.Join(o.Clusters, " ") + "|" + strings.Join(o.Endpoints, " "); got != clusters+"|"+endpoints {
			return fmt.Sprintf("%s is occupied by %q", address, got)
		}
		return ""
	}
	for _, problem := range []string{occupied("10.0.0.1", "", "one/web two/web"),
		occupied("10.96.0.7", "default/web", ""),
		occupied("10.0.0.9", "", "")} {
		if problem != "" {
			t.Errorf("right after Want %s", problem)
		}
	}
	r.API.Apply(t, "endpointslices", sliceIn("two", "web-1", generated, "10.0.0.9"))
	r.Eventually(func() string { return occupied("10.0.0.1", "", "one/web") + occupied("10.0.0.9", "", "two/web") })
	r.API.Apply(t, "services", service("web", "10.96.0.8"))
	r.Eventually(func() string { return occupied("10.96.0.7", "", "") })
	r.Source.Want(nil, want("10.0.0.1", "10.96.0.7", "10.0.0.9"))
	r.flush()
	if n := len(store.Occupants.All(r.Store.View())); n != 0 {
		t.Errorf("%d addresses are left that translation does not read, want none", n)
	}
}

func TestOccupant_ListsAreOneDemandEach(t *testing.T) {
	r := begin(t, func(api *kubetest.Server) {
		api.Apply(t, "endpointslices", sliceIn("one", "web-1", generated, "10.0.0.1"))
		api.Apply(t, "endpointslices", sliceIn("two", "web-1", generated, "10.0.0.2"))
	}).synced()
	r.park()
	list := func(key string) kube.Demand {
		return kube.Demand{Table: "Occupant", Index: store.ByAddresses, Key: key}
	}
	occupied := func(key, want string) func() string {
		return func() string {
			var got []string
			for _, o := range store.Occupants.By(r.Store.View(), store.ByAddresses, key) {
				got = append(got, o.Name+"="+strings.Join(o.Endpoints, "+"))
			}
			if text := strings.Join(got, " "); text != want {
				return fmt.Sprintf("occupants of %s: %q, want %q", key, text, want)
			}
			return ""
		}
	}
	expect := func(key, want string) {
		t.Helper()
		if problem := occupied(key, want)(); problem != "" {
			t.Error(problem)
		}
	}
	long, short := "10.0.0.1 10.0.0.11 10.0.0.2 2001:db8::1", "10.0.0.11 10.0.0.2"
	r.want([]kube.Demand{list(long)})
	expect(long, "10.0.0.1=one/web 10.0.0.2=two/web")
	// The demanded list changes. An address in both lists keeps its Occupant.
	r.Source.Want([]kube.Demand{list(short)}, []kube.Demand{list(long)})
	r.flush()
	expect(long, "")
	expect(short, "10.0.0.2=two/web")
	r.API.Apply(t, "endpointslices", sliceIn("one", "web-1", generated, "10.0.0.11"))
	r.Eventually(occupied(short, "10.0.0.11=one/web 10.0.0.2=two/web"))
	// No demanded list has this address.
	r.API.Apply(t, "endpointslices", sliceIn("one", "web-2", generated, "2001:db8::1"))
	r.want([]kube.Demand{list(long)})
	r.Eventually(occupied(long, "10.0.0.11=one/web 10.0.0.2=two/web 2001:db8::1=one/web"))
	r.Source.Want(nil, []kube.Demand{list(short), list(long)})
	r.flush()
	if n := len(store.Occupants.All(r.Store.View())); n != 0 {
		t.Errorf("%d addresses are left that translation does not read, want none", n)
	}
}
