package controller_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/penstock-project/penstock/discovery/engine/controller"
	"github.com/penstock-project/penstock/discovery/engine/processes"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

func TestDeployment_FirstPhaseUnderSupervisionIsPrinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var printed []string
		r := &rig{T: t, world: store.New()}
		r.Keeper = controller.New(controller.Config{Store: r.world, Program: "/bin/penstock",
			Report: func([]report.Report) {}, Log: slog.New(slog.DiscardHandler),
			OnPhase: func(id, phase, _ string) { printed = append(printed, id+" "+phase) }})
		r.deploy("broken", sim+"variables: {max-num-seqs: 0}\n")
		if len(printed) > 0 {
			t.Errorf("without supervision: got %v, want none", printed)
		}
		f := &fake{states: map[string]processes.State{}, changed: make(chan struct{})}
		if err := r.Start(f); err != nil {
			t.Fatal(err)
		}
		if want := []string{"default/broken Failed"}; !slices.Equal(printed, want) {
			t.Errorf("got %v, want %v", printed, want)
		}
	})
}

func TestDeployment_ACrashLoopIsPrintedWithGrowingDistance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		phases, errors := 0, map[string]bool{}
		r := startWith(t, controller.Config{OnPhase: func(string, string, string) { phases++ }})
		r.deploy("qwen", sim)
		const ends = 100
		for n := 1; n <= ends; n++ {
			for _, phase := range []processes.Phase{processes.Waiting, processes.Starting} {
				r.engines.set("default/qwen/0", func(s *processes.State) {
					s.Phase, s.Failures, s.Reason = phase, n, "exit status 1"
					s.LastWords = fmt.Sprint("at ", n, ": out of memory")
				})
				synctest.Wait()
				got := r.conditions("qwen")
				if n > 4 && !strings.Contains(got, "Ready False Failed server 0: exit status 1: at ") {
					t.Errorf("end %d, %v: %s", n, phase, got)
				}
				errors[got] = true
			}
		}
		if phases > 10 || len(errors) > 15 {
			t.Errorf("%d ends: %d phases and %d texts, want at most 10 and 15", ends, phases, len(errors))
		}
	})
}
