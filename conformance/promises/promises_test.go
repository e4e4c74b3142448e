//go:build lab && linux

package promises

import (
	"slices"
	"testing"
)

type promise struct {
	name string
	test func(place)
}

var ofFleets = []promise{
	{"Gateway_ServesAtItsAddress", fleetServes},
	{"Gateway_DeletionDrainsAndLeavesNothing", deletionDrains},
	{"Gateway_StaticAddressIsUsedOrReported", staticAddresses},
	{"EnvoyFleet_ParametersChangeUnderLoad", parametersTakeEffect},
	{"HorizontalPodAutoscaler_ScalesEnvoysAndExternalFleetsAttach", scalingAndExternal},
	{"EnvoyFleet_ServiceTypeIsServed", servicesOfEveryKind},
}

var ofTrust = []promise{
	{"ServiceAccountToken_LimitsProxyToItsGateway", tokenLimitsProxy},
	{"ServiceAccountToken_RotationCutsNothing", tokenRotates},
	{"ServiceAccountToken_JunkCostsNoReviews", junkTokens},
	{"Certificate_RenewalLosesNoRequest", certificatesRenewed},
}

var ofStatuses = []promise{
	{"Programmed_WaitsForACKs", programmedAfterACKs},
	{"Log_ReportsFleetsProxiesAndLeader", logReports},
	{"NACK_StatusQuotesEnvoy", nackInStatus},
	{"NACK_ReachesLeaderFromAnyProcess", nackReachesLeader},
}

var ofProcesses = []promise{
	{"LeaderElection_KilledProcessLosesNothing", leaderKilled},
	{"Rollout_LosesNoRequestAndCertificatesAttach", rolloutAndCertificates},
}

// ofAll check Penstock's behavior during all other tests, so they run last.
var ofAll = []promise{
	{"RBAC_SufficesAndReadsOnlyNamedSecrets", permissionsSuffice},
	{"LeaderElection_OnlyLeaderWrites", onlyLeaderWrites},
	{"RBAC_RevokedReadsChangeNothing", permissionsRevoked},
}

// The tests are subtests, because they share a lab and their order matters. go test -tags lab -run
// /.*/NACK ./promises selects some.
func TestKubernetes_Promises(t *testing.T) {
	t.Run("together", func(t *testing.T) { together(t, slices.Concat(ofTrust, ofFleets, ofStatuses)) })
	t.Run("attacks", func(t *testing.T) { alone(t, ofAttacks) })
	t.Run("alone", func(t *testing.T) { alone(t, ofProcesses) })
	t.Run("last", func(t *testing.T) { alone(t, ofAll) })
	t.Run("faults", underFaults) // these need a test build of Penstock
}

func alone(t *testing.T, tests []promise) {
	for _, p := range tests {
		t.Run(p.name, func(t *testing.T) { p.test(newPlace(t)) })
	}
}

func together(t *testing.T, tests []promise) {
	for _, p := range tests {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.test(newPlace(t))
		})
	}
}
