package resource_test

import (
	"slices"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/xds/resource"
)

func cluster(t *testing.T, alt string, refs []resource.Ref, owners ...report.Ref) *resource.Resource {
	t.Helper()
	r, err := resource.New(resource.Cluster, "a", &clusterv3.Cluster{Name: "a", AltStatName: alt}, refs, owners)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestVersion_HashesContentsOnly(t *testing.T) {
	owner := report.Ref{Kind: "Service", Name: "s"}
	a, same, other := cluster(t, "x", nil), cluster(t, "x", nil, owner), cluster(t, "y", nil)
	if a.Version != same.Version {
		t.Error("an owner changes the version: every proxy would get the same bytes again")
	}
	if a.Version == other.Version {
		t.Error("other contents have the same version: a proxy would never get them")
	}
	if a.Equal(same) || !a.Equal(cluster(t, "x", nil)) || a.Equal(nil) {
		t.Error("resources are equal when everything is, owners included")
	}
}

func TestPart_PartsEncodeOneMessage(t *testing.T) {
	owner := func(name string) report.Ref { return report.Ref{Kind: "HTTPRoute", Name: name} }
	ref := func(name string) resource.Ref { return resource.Ref{Type: resource.Cluster, Name: name} }
	whole := resource.FromParts(resource.RouteConfiguration, "r",
		resource.NewPart([]byte("abc"), []resource.Ref{ref("y"), ref("x"), ref("x")},
			[]report.Ref{owner("b"), owner("a")}))
	first := resource.NewPart([]byte("ab"), []resource.Ref{ref("y"), ref("x")}, []report.Ref{owner("b")})
	divided := resource.FromParts(resource.RouteConfiguration, "r", first,
		resource.NewPart([]byte("c"), []resource.Ref{ref("x")}, []report.Ref{owner("a"), owner("b")}))
	if divided.Version != whole.Version || string(divided.Body()) != "abc" || divided.Size != 3 ||
		!slices.Equal(divided.Refs, whole.Refs) || !slices.Equal(divided.Owners(), whole.Owners()) {
		t.Errorf("%+v: body %q, owners %v; want what %+v has", divided, divided.Body(), divided.Owners(), whole)
	}
	if divided.Equal(resource.FromParts(resource.RouteConfiguration, "r", first,
		resource.NewPart([]byte("d"), nil, nil))) {
		t.Error("a changed part is equal: no proxy would get it")
	}
	if !divided.Equal(resource.FromParts(resource.RouteConfiguration, "r", slices.Clone(divided.Parts)...)) {
		t.Error("equal parts make different resources: every proxy would get them again")
	}
}

func TestRef_SortedWithoutRepeats(t *testing.T) {
	eds, secret := resource.Ref{Type: resource.Endpoints, Name: "e"}, resource.Ref{Type: resource.Secret, Name: "z"}
	r := cluster(t, "x", []resource.Ref{eds, secret, eds})
	if !slices.Equal(r.Refs, []resource.Ref{secret, eds}) {
		t.Errorf("refs %v, want %v", r.Refs, []resource.Ref{secret, eds})
	}
}

func TestType_FoundByURL(t *testing.T) {
	for _, typ := range resource.Types() {
		if got, ok := resource.TypeOf(typ.URL()); !ok || got != typ {
			t.Errorf("%s: URL %q gives %v, %v; want itself", typ, typ.URL(), got, ok)
		}
	}
	if _, ok := resource.TypeOf("type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration"); ok {
		t.Error("a type that is not served is found")
	}
}
