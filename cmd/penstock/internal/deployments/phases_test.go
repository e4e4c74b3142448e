package deployments_test

import (
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/penstock-project/penstock/cmd/penstock/internal/deployments"
	"github.com/penstock-project/penstock/cmd/penstock/internal/engines"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// A phase that holds before and after the start of the supervision would never be printed.
func TestDeployment_FirstPhaseUnderSupervisionIsPrinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var printed []string
		r := &rig{T: t, world: store.New()}
		r.Keeper = deployments.New(deployments.Config{Store: r.world, Program: "/bin/penstock",
			Report: func([]report.Report) {}, Log: slog.New(slog.DiscardHandler),
			OnPhase: func(id, phase, _ string) { printed = append(printed, id+" "+phase) }})
		r.deploy("broken", sim+"variables: {max-num-seqs: 0}\n")
		if len(printed) > 0 {
			t.Errorf("without supervision: got %v, want none", printed)
		}
		f := &fake{states: map[string]engines.State{}, changed: make(chan struct{})}
		if err := r.Start(f); err != nil {
			t.Fatal(err)
		}
		if want := []string{"default/broken Failed"}; !slices.Equal(printed, want) {
			t.Errorf("got %v, want %v", printed, want)
		}
	})
}
