//go:build faults

package simulate

import "testing"

// mistakes are the values of $PENSTOCK_FAULT. In a build with the tag faults, each makes the code
// behave as if it had this fault.
var mistakes = []string{
	"fence",       // updates with older stamps count
	"lease",       // a lease never ends
	"allow",       // a member may export into any namespace
	"silence",     // the exports of a silent member are withdrawn
	"resumption",  // after a lost connection, a changed item is not sent
	"file sync",   // a file is renamed before its content is synced
	"folder sync", // a folder is not synced after a file in it was written
	"share",       // a member exceeds its share
}

// The simulation must find each known fault within some seeds. Otherwise seeds without a finding
// would prove nothing.
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
