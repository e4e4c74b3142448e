//go:build lab && linux

package members

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/penstock-project/penstock/conformance/lab/installed"
)

// All processes of the importer are killed at once. The importer's Envoys keep their configuration,
// and the new processes must not remove anything.
func TestClusterSet_KilledImporterLosesNoRequest(t *testing.T) {
	s := newSite(t)
	s.west.kill()
	s.load.Goes(100)
	s.ends()
}

// New pods replace the importer's processes, as in an upgrade. They must not serve Envoys before
// they have the imports' endpoints, which no API server stores.
func TestClusterSet_UpgradedImporterLosesNoRequest(t *testing.T) {
	s := newSite(t)
	for n := range 3 {
		patch := fmt.Sprintf(`{"spec": {"template": {"metadata": {"annotations": {"rollout": "%d"}}}}}`, n)
		if _, err := s.west.AppsV1().Deployments(installed.System).Patch(t.Context(), "penstock", types.MergePatchType,
			[]byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		s.west.RolledOut(installed.System, "penstock")
		s.load.Goes(50)
	}
	s.ends()
}

// The test omits pool chat, because its picker is Penstock's own and is killed, too. See
// TestClusterSet_KilledExporterWithThePickerIsReplacedByAnother.
func TestClusterSet_KilledExporterLosesNoRequestOfAPoolWithAPickerOfItsOwn(t *testing.T) {
	s := newSite(t, "epp")
	s.east.kill()
	s.load.Goes(100)
	s.ends()
}

// The importer restarts while no Penstock runs at the exporter. The importer keeps its imports with
// their endpoints. The exporter's picker of chat is missing, too, so requests to chat go to the
// other cluster.
func TestClusterSet_ImporterKilledWhileItsExporterIsAwayLosesNoRequest(t *testing.T) {
	s := newSite(t, "epp")
	s.east.scale(0)
	s.states("east", "Unknown", "")
	s.load.serves("east", "north")
	s.west.kill()
	s.load.serves("east", "north")
	open := newLoad(t, s.west.address(), "chat")
	open.serves("north")
	open.End()
	open.counted()
	s.east.scale(2)
	s.ends()
}
