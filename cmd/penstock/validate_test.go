package main

import (
	"log/slog"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/supervisor"
)

// All tests with --validate depend on this: a NACK becomes a finding of the owner, with Envoy's
// error.
func TestNACK_ValidateReportsTheOwner(t *testing.T) {
	t.Parallel()
	owner := report.Ref{Kind: "InferencePool", Group: "inference.networking.k8s.io", Namespace: "default", Name: "odd"}
	options, err := anypb.New(&corev3.Metadata{})
	if err != nil {
		t.Fatal(err)
	}
	cluster := func(name, policy string, owners ...report.Ref) *resource.Resource {
		r, err := resource.New(resource.Cluster, name, &clusterv3.Cluster{
			Name: name, ConnectTimeout: durationpb.New(1e9),
			ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
			LoadBalancingPolicy: &clusterv3.LoadBalancingPolicy{Policies: []*clusterv3.LoadBalancingPolicy_Policy{
				{TypedExtensionConfig: &corev3.TypedExtensionConfig{Name: policy, TypedConfig: options}},
			}},
		}, nil, owners)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	envoy, err := supervisor.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reports, err := validate(t.Context(), envoy, "default/gw",
		[]*resource.Resource{cluster("odd", "envoy.no-such-policy", owner)}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if len(reports) != 1 || reports[0].Owner != owner {
		t.Fatalf("want a report for %s: %+v", owner, reports)
	}
	var text strings.Builder
	for _, f := range reports[0].Findings {
		text.WriteString(f.String())
	}
	for _, c := range reports[0].Conditions {
		text.WriteString(c.Message)
	}
	if !strings.Contains(text.String(), "load balancer") {
		t.Errorf("got %+v, want Envoy's words about the load balancer", reports[0])
	}
}
