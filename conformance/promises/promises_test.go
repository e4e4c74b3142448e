//go:build lab && linux

package promises

import "testing"

// promise is one sentence, and the test that keeps it.
type promise struct {
	that string
	kept func(place)
}

// ofFleets are about a Gateway and its proxies.
var ofFleets = []promise{
	{"a Gateway becomes Envoys behind an address that answers", gatewayBecomesFleet},
	{"deleting a Gateway ends what is under way in peace and leaves nothing", deletionDrains},
	{"a Gateway gets the addresses that it asks for or says that it cannot", staticAddresses},
	{"how proxies run can be changed under load", parametersTakeEffect},
	{"an autoscaler, a kind of Service and proxies of one's own can be had", scalingAndServices},
}

func TestPromises(t *testing.T) {
	t.Run("fleets", func(t *testing.T) { together(t, ofFleets) })
}

// together keeps promises side by side.
func together(t *testing.T, promises []promise) {
	for _, p := range promises {
		t.Run(p.that, func(t *testing.T) {
			t.Parallel()
			p.kept(newPlace(t))
		})
	}
}
