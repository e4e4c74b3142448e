//go:build !race

package simulate

import (
	"fmt"
	"strings"
	"testing"
)

// seeds is how many seeds a test plays.
const seeds = 8

// A seed must give the same log each time, because otherwise a failure could not be replayed. The
// test does not run under the race detector, which schedules goroutines differently.
func TestSimulation_SeedReplaysExactly(t *testing.T) {
	for seed := range uint64(1) {
		first, _ := simulate(t, seed)
		again, _ := simulate(t, seed)
		if first != again {
			t.Errorf("seed %d: want the same log twice, got %s", seed, differs(first, again))
		}
	}
}

// differs describes the first difference of two logs.
func differs(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d: %q and %q", i+1, x[i], y[i])
		}
	}
	return fmt.Sprintf("%d and %d lines", len(x), len(y))
}
