package peers

import (
	"testing"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func TestParentMode_404sThatAnotherProcessCountsAreOnTheBoard(t *testing.T) {
	other := startPublisher(t)
	counts := NewAnswers(status.NewBoard(nil), other.Channel)
	board, c := status.NewBoard(nil), channel.New(channel.Config{Peers: []string{other.address}})
	own := NewAnswers(board, c)
	subscribed(t, c)
	found := report.Report{
		Owner: farImport, Findings: []report.Finding{{Severity: report.Warning, Owner: farImport, Problem: "404"}},
	}
	shown := func(findings int) func() bool {
		return func() bool {
			shown, _ := board.Get(farImport)
			return len(shown.Findings) == findings
		}
	}
	counts.Report("parent/default/far/west", found)
	poll.Until(t, "the other's finding is on the board", shown(1))
	own.Report("parent/default/far/west", found)
	if !shown(1)() {
		t.Error("the same finding of two processes appears twice")
	}
	own.Resolve("parent/default/far/west")
	if !shown(1)() {
		t.Error("one process takes another's finding back")
	}
	counts.Resolve("parent/default/far/west")
	poll.Until(t, "it is taken back", shown(0))
	counts.Report("parent/default/far/west", found)
	poll.Until(t, "it is there again", shown(1))
	other.stop()
	poll.Until(t, "it goes with its process", shown(0))
}
