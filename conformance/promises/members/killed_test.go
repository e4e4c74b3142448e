//go:build lab && linux

package members

import "testing"

// All processes of the importer are killed at once. Its Envoys go on with what they have, and what the new processes publish is not less.
func TestClusterSet_KilledImporterLosesNoRequest(t *testing.T) {
	s := newSite(t)
	s.west.kill()
	s.load.Goes(100)
	s.ends()
}

// The pool chat is left out: its picker is Penstock's own and is killed too. Requests whose body that picker reads as a stream are lost until
// Envoy has noticed, although the pool fails open.
func TestClusterSet_KilledExporterLosesNoRequestOfAPoolWithAPickerOfItsOwn(t *testing.T) {
	s := newSite(t, "epp")
	s.east.kill()
	s.load.Goes(100)
	s.ends()
}

// The importer starts again while no Penstock runs at the exporter: it keeps what it has imported, endpoints included. So requests to chat,
// whose picker is away too, go to any of them.
func TestClusterSet_ImporterKilledWhileItsExporterIsAwayLosesNoRequest(t *testing.T) {
	s := newSite(t, "epp")
	s.east.scale(0)
	s.states("east", "Unknown", "")
	s.load.serves("east", "north")
	s.west.kill()
	s.load.serves("east", "north")
	open := newLoad(t, s.west.address(), "chat")
	open.serves("east", "north")
	open.End()
	s.east.scale(2)
	s.ends()
}
