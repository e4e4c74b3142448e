package features

import (
	"slices"
	"strings"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	upstream "sigs.k8s.io/gateway-api/pkg/features"
)

// status.supportedFeatures must be sorted, and has at most 64 items.
func TestGatewayClass_SupportedFeaturesAreKnownUpstream(t *testing.T) {
	known := upstream.SetsToNamesSet(upstream.AllFeatures)
	for _, name := range Names() {
		if !known.Has(upstream.FeatureName(name)) {
			t.Errorf("upstream has no feature %s", name)
		}
	}
	if !slices.IsSorted(Names()) {
		t.Error("the list is not sorted")
	}
	if len(Names()) > 64 {
		t.Errorf("%d features: a GatewayClass takes 64, want at most 64", len(Names()))
	}
}

// The suites skip features that are not claimed, so they would pass if a line were lost.
func TestGatewayClass_EveryGatewayFeatureIsSupported(t *testing.T) {
	for _, f := range upstream.AllFeatures.UnsortedList() {
		if strings.HasPrefix(string(f.Name), "Mesh") || strings.HasPrefix(string(f.Name), "UDP") {
			continue // not for gateways of HTTP, gRPC, TLS and TCP
		}
		if !slices.Contains(Names(), gatewayv1.FeatureName(f.Name)) {
			t.Errorf("feature %s is not claimed", f.Name)
		}
	}
}
