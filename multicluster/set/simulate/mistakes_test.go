//go:build faults

package simulate

import "testing"

// mistakes are the mistakes that the product makes in a build with the tag faults, by
// $PENSTOCK_FAULT.
var mistakes = []string{
	"fence",       // updates with older stamps count
	"lease",       // a lease never ends
	"allow",       // a member may export into any namespace
	"silence",     // the exports of a silent member are withdrawn
	"resumption",  // after a lost connection, an item that has changed is not sent
	"file sync",   // a file is renamed before its content is on the disk
	"folder sync", // the name of a file is not on the disk once it is written
	"share",       // a member exceeds its share
}

// A simulation that finds nothing proves nothing: it finds each known mistake within some seeds.
func TestSimulation_FaultsAreFound(t *testing.T) {
	for _, mistake := range mistakes {
		t.Run(mistake, func(t *testing.T) {
			t.Setenv("PENSTOCK_FAULT", mistake)
			for seed := range number(t, "SEEDS", 1000) {
				if _, violated := simulate(t, seed); violated != "" {
					t.Logf("found by seed %d: %.300s", seed, violated)
					return
				}
			}
			t.Errorf("no seed has found it, want one of them to")
		})
	}
}
