//go:build lab && linux

package promises

import (
	"slices"
	"testing"
)

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
	{"an autoscaler and proxies of one's own can be had", scalingAndOthers},
	{"a Gateway is reached by the kind of Service that is asked for", servicesOfEveryKind},
}

// ofTrust are about who knows whom, and how that lasts.
var ofTrust = []promise{
	{"a proxy sees its own Gateway's configuration and a stranger nothing", tokensDecide},
	{"a token that is replaced counts without a break", tokensAreReadAgain},
	{"certificates and authorities are renewed without a restart or a lost request", certificatesRenewed},
}

// ofStatuses are about what the statuses of objects say.
var ofStatuses = []promise{
	{"nothing is programmed before its proxies have acknowledged it", programmedAfterAcks},
	{"the log tells of fleets and proxies that come and go and of who leads", logTells},
	{"what an Envoy refuses stands in its object's status in Envoy's words", refusalInEnvoysWords},
	{"what a proxy refuses is known to who writes statuses wherever it is connected", refusalElsewhere},
}

// ofProcesses are about Penstock itself, which they kill.
var ofProcesses = []promise{
	{"either process may be killed without a lost request or status", leaderKilled},
	{"a rollout of Penstock loses no request and proxies may attach by certificate", rolloutAndCertificates},
}

// ofAll are about what happened in all of the others, and what must not happen in them.
var ofAll = []promise{
	{"the permissions suffice and no Secret is read that nobody names", permissionsSuffice},
	{"nobody writes but the process that leads", onlyTheLeaderWrites},
	{"what is served stays served while Penstock may read nothing", shutOut},
}

func TestPromises(t *testing.T) {
	t.Run("together", func(t *testing.T) { together(t, slices.Concat(ofTrust, ofFleets, ofStatuses)) })
	t.Run("alone", func(t *testing.T) { alone(t, ofProcesses) })
	t.Run("last", func(t *testing.T) { alone(t, ofAll) })
}

// alone keeps promises one by one.
func alone(t *testing.T, promises []promise) {
	for _, p := range promises {
		t.Run(p.that, func(t *testing.T) { p.kept(newPlace(t)) })
	}
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
