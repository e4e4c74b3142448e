package features

import (
	"slices"
	"strings"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	upstream "sigs.k8s.io/gateway-api/pkg/features"
)

// A GatewayClass's list must be sorted and short, and name what others know.
func TestAClassClaimsOnlyFeaturesThatTheSuiteKnows(t *testing.T) {
	known := upstream.SetsToNamesSet(upstream.AllFeatures)
	for _, name := range Names() {
		if !known.Has(upstream.FeatureName(name)) {
			t.Errorf("the suite knows no feature %s", name)
		}
	}
	if !slices.IsSorted(Names()) {
		t.Error("the list is not sorted")
	}
	if len(Names()) > 64 {
		t.Errorf("%d features: a GatewayClass takes 64", len(Names()))
	}
}

// What is not claimed is not tested: a line that is lost here would take its tests with it, and the suites would still pass.
func TestAClassClaimsEveryFeatureThatAGatewayCanHave(t *testing.T) {
	for _, f := range upstream.AllFeatures.UnsortedList() {
		if strings.HasPrefix(string(f.Name), "Mesh") || strings.HasPrefix(string(f.Name), "UDP") {
			continue // not a gateway's for HTTP, gRPC, TLS and TCP
		}
		if !slices.Contains(Names(), gatewayv1.FeatureName(f.Name)) {
			t.Errorf("feature %s is not claimed", f.Name)
		}
	}
}
