package features

import (
	"slices"
	"testing"

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
