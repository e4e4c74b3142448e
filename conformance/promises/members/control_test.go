//go:build lab && linux

package members

import (
	"fmt"
	"testing"
	"time"

	"github.com/penstock-project/penstock/conformance/lab/installed"
	"github.com/penstock-project/penstock/conformance/lab/network"
)

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
		s.imports("east has "+want, func(entries map[string]map[string]any) error {
			if entries["east"]["routingMode"] != want {
				return fmt.Errorf("east is %v, want %s", entries["east"], want)
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

// A member leaves as by `penstock clusters leave` for a folder, which edits no object of
// Kubernetes. The member drains, and then removes all members. The other members remove it, and all
// join again by `penstock clusters join`.
func TestClusterSet_MemberThatLeavesAndJoinsLosesNoRequest(t *testing.T) {
	s := newSite(t)
	s.east.join(true, s.north, s.west)
	s.states("east", "False", "Draining")
	s.east.lists("Cluster east is draining")
	s.west.lists("east Draining yes")
	s.load.idles("east")
	s.east.join(false)
	s.ready("north")
	s.west.join(false, s.north)
	s.north.join(false, s.west)
	s.load.Goes(100)
	s.west.joins(s.east)
	s.north.joins(s.east)
	s.east.joins(s.north, s.west)
	s.west.lists("east Ready yes")
	s.ends()
}

// The other members remove a member without a drain. The removed member must serve its requests to
// their ends.
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
		{"both ways", func(s *site, e network.Effect) { s.control(s.east, s.west, false, e) }, ""},
		{"from the exporter", func(s *site, e network.Effect) { s.control(s.east, s.west, true, e) }, ""},
		{"from the importer", func(s *site, e network.Effect) { s.control(s.west, s.east, true, e) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			t.Cleanup(func() { s.control(s.east, s.west, false, network.Heal) })
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
	t.Cleanup(func() { s.control(s.east, s.west, false, network.Heal) })
	s.control(s.east, s.west, false, network.Reject)
	s.states("east", "Unknown", "Unreachable")
	s.load.serves("east", "north")
	s.control(s.east, s.west, false, network.Heal)
	s.ends()
}

// A link first delays all packets, requests included. Then it loses many control packets.
func TestClusterSet_SlowOrLossyLinkLosesNoRequest(t *testing.T) {
	s := newSite(t)
	t.Cleanup(func() { s.faults(network.Fault{Effect: network.Heal}) })
	s.faults(network.Fault{Effect: network.Delay, By: 100 * time.Millisecond})
	s.east.annotate("export-mode", `"ParentMode"`)
	s.ready("east", "north")
	s.load.serves("east", "north")
	s.faults(network.Fault{Effect: network.Drop, Share: 30, Port: installed.PeerPort})
	s.east.annotate("export-mode", "null")
	s.load.Goes(200)
	s.faults(network.Fault{Effect: network.Heal})
	s.ends()
}
