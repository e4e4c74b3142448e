//go:build lab && linux

package members

import (
	"fmt"
	"testing"

	"github.com/penstock-project/penstock/conformance/lab/network"
)

// An export is withdrawn and made again, with a pause and without one.
func TestClusterSet_WithdrawnExportLosesNoRequest(t *testing.T) {
	s := newSite(t)
	s.east.annotate("export", "null")
	s.ready("north")
	s.load.idles("east")
	s.east.annotate("export", `"ClusterSet"`)
	s.ready("east", "north")
	s.load.serves("east")
	s.east.annotate("export", "null")
	s.east.annotate("export", `"ClusterSet"`)
	s.ends()
}

func TestClusterSet_ChangedModeLosesNoRequest(t *testing.T) {
	s := newSite(t)
	mode := func(want string) {
		t.Helper()
		s.east.annotate("export-mode", fmt.Sprintf("%q", want))
		s.imports("east has "+want, func(of map[string]map[string]any) error {
			if of["east"]["routingMode"] != want {
				return fmt.Errorf("%v", of["east"])
			}
			return nil
		})
		s.ready("east", "north")
		s.load.serves("east", "north")
	}
	s.east.address()
	mode("ParentMode")
	mode("EndpointMode")
	mode("ParentMode")
	s.east.annotate("export-mode", "null")
	s.ends()
}

func TestClusterSet_DrainedMemberLosesNoRequest(t *testing.T) {
	s := newSite(t)
	s.east.join(true, s.north, s.west)
	s.states("east", "False", "Draining")
	s.load.idles("east")
	s.east.join(false, s.north, s.west)
	s.ends()
}

// A member leaves as `penstock clusters leave` does in a folder: it drains, then it removes all members. The others remove it, and it joins
// again.
func TestClusterSet_MemberThatLeavesAndJoinsLosesNoRequest(t *testing.T) {
	s := newSite(t)
	s.east.join(true, s.north, s.west)
	s.states("east", "False", "Draining")
	s.load.idles("east")
	s.east.join(false)
	s.ready("north")
	s.west.join(false, s.north)
	s.north.join(false, s.west)
	s.load.Goes(100)
	s.west.join(false, s.east, s.north)
	s.north.join(false, s.east, s.west)
	s.east.join(false, s.north, s.west)
	s.ends()
}

// A member that the others remove without a drain serves its requests to their ends.
func TestClusterSet_RemovedMemberLosesNoRequest(t *testing.T) {
	s := newSite(t)
	s.west.join(false, s.north)
	s.ready("north")
	s.load.idles("east")
	s.west.join(false, s.east, s.north)
	s.ends()
}

func TestClusterSet_CutControlLinkLosesNoRequest(t *testing.T) {
	for _, c := range []struct {
		name   string
		cut    func(*site, network.Effect)
		reason string
	}{
		{"both ways", func(s *site, e network.Effect) { s.link(s.east, s.west, false, e) }, ""},
		{"from the exporter", func(s *site, e network.Effect) { s.link(s.east, s.west, true, e) }, ""},
		{"from the importer", func(s *site, e network.Effect) { s.link(s.west, s.east, true, e) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			t.Cleanup(func() { s.link(s.east, s.west, false, network.Heal) })
			c.cut(s, network.Cut)
			s.states("east", "Unknown", "")
			s.load.serves("east", "north")
			c.cut(s, network.Heal)
			s.ends()
		})
	}
}

func TestClusterSet_RejectedControlLinkLosesNoRequest(t *testing.T) {
	s := newSite(t)
	t.Cleanup(func() { s.link(s.east, s.west, false, network.Heal) })
	s.link(s.east, s.west, false, network.Reject)
	s.states("east", "Unknown", "Unreachable")
	s.load.serves("east", "north")
	s.link(s.east, s.west, false, network.Heal)
	s.ends()
}
