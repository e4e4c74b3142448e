package simulate

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
)

// simulate runs a seed. It returns the log, and the first violated invariant; "": none.
func simulate(t *testing.T, seed uint64, with ...func(w *world)) (log, violated string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed)
		w.populate()
		for _, prepare := range with {
			prepare(w)
		}
		w.plan()
		w.run(w.began.Add(healed + settled))
		if w.fail == "" {
			w.checkArrived()
		}
		w.end()
		log, violated = w.log.String(), w.fail
	})
	return log, violated
}

func number(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// With any faults, the three clusters neither lose nor keep an export wrongly.
func TestSimulation_SeedsHold(t *testing.T) {
	if os.Getenv("SEED") != "" {
		seed := number(t, "SEED", 0)
		log, violated := simulate(t, seed)
		fmt.Print(log)
		if violated != "" {
			t.Errorf("seed %d violates %s, want nothing violated", seed, violated)
		}
		return
	}
	for seed := range number(t, "SEEDS", seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			if _, violated := simulate(t, seed); violated != "" {
				t.Errorf("seed %d violates %s, want nothing violated\nmake simulate SEED=%d replays it", seed, violated,
					seed)
			}
		})
	}
}

// The simulation must detect a known fault: folders that are not synced. make simulate FAULTS=1
// tests more known faults.
func TestSimulation_FolderThatIsNotSyncedIsFound(t *testing.T) {
	for seed := range uint64(20) {
		if _, violated := simulate(t, seed, func(w *world) {
			for _, n := range w.nodes {
				n.disk.forgets = true
			}
		}); violated != "" {
			t.Logf("seed %d: %.200s", seed, violated)
			return
		}
	}
	t.Error("no seed has found it")
}
