package resource_test

import (
	"slices"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/discovery/report"
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

func TestAVersionIsTheContentsAndNothingElse(t *testing.T) {
	owner := report.Ref{Kind: "Service", Name: "s"}
	a, same, other := cluster(t, "x", nil), cluster(t, "x", nil, owner), cluster(t, "y", nil)
	if a.Version != same.Version {
		t.Error("an owner changed the version: every proxy would be sent the same bytes again")
	}
	if a.Version == other.Version {
		t.Error("other contents have the same version: a proxy would never get them")
	}
	if a.Equal(same) || !a.Equal(cluster(t, "x", nil)) || a.Equal(nil) {
		t.Error("resources are equal when everything is, owners included")
	}
}

func TestEnvoyReadsTheWrapperAsAnAny(t *testing.T) {
	r := cluster(t, "x", nil)
	var any anypb.Any
	if err := proto.Unmarshal(r.AppendAny(nil), &any); err != nil {
		t.Fatal(err)
	}
	msg, err := any.UnmarshalNew()
	if err != nil {
		t.Fatal(err)
	}
	if c, ok := msg.(*clusterv3.Cluster); !ok || c.GetAltStatName() != "x" {
		t.Errorf("got %v", msg)
	}
}

func TestReferencesAreSortedWithoutRepeats(t *testing.T) {
	eds, secret := resource.Ref{Type: resource.Endpoints, Name: "e"}, resource.Ref{Type: resource.Secret, Name: "z"}
	r := cluster(t, "x", []resource.Ref{eds, secret, eds})
	if !slices.Equal(r.Refs, []resource.Ref{secret, eds}) {
		t.Errorf("refs %v", r.Refs)
	}
}

func TestEveryTypeIsFoundByItsURL(t *testing.T) {
	for _, typ := range resource.Types() {
		if got, ok := resource.TypeOf(typ.URL()); !ok || got != typ {
			t.Errorf("%s: URL %q gives %v, %v", typ, typ.URL(), got, ok)
		}
	}
	if _, ok := resource.TypeOf("type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration"); ok {
		t.Error("a type that is not served is found")
	}
}
