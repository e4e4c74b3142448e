package envoy

import (
	"net/netip"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/penstock-project/penstock/translator/model"
)

// Endpoints encodes pods without protobuf messages. The bytes must decode to the same messages.
func TestEndpoints_HandEncodingEqualsTheMessages(t *testing.T) {
	a := &model.Assignment{Cluster: named("pool/ns/p"), Endpoints: []model.Endpoint{
		{Address: netip.MustParseAddrPort("10.0.0.1:80")},
		{Address: netip.MustParseAddrPort("[2001:db8:1111:2222:3333:4444:5555:6666]:65535"), Weight: 1 << 31},
		{Address: netip.MustParseAddrPort("10.0.0.2:8000"), Weight: 3},
		{Address: netip.MustParseAddrPort("10.0.0.3:9002"), Unhealthy: true},
		{Hop: model.HopTo("InferencePool", "ns", "a")}, {Hop: model.HopTo("InferencePool", "ns", "b"), Later: true},
		{Hop: model.HopTo("InferencePool", "ns", "c"), Priority: 1},
	}}
	want := &endpointv3.ClusterLoadAssignment{ClusterName: a.Cluster.String(),
		Endpoints: []*endpointv3.LocalityLbEndpoints{{}, {Priority: 1}}}
	for _, e := range a.Endpoints {
		g := want.Endpoints[e.Priority]
		g.LbEndpoints = append(g.LbEndpoints, lbEndpoint(e))
	}
	r, err := Endpoints(a)
	if err != nil {
		t.Fatal(err)
	}
	got := &endpointv3.ClusterLoadAssignment{}
	if err := proto.Unmarshal(r.Body(), got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if _, err := Endpoints(&model.Assignment{Cluster: named("c"), Endpoints: []model.Endpoint{{}}}); err == nil {
		t.Error("an endpoint without an address passes")
	}
}
