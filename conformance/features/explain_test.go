package features

import (
	"testing"

	"github.com/penstock-project/penstock/conformance/promises/explain"
	"github.com/penstock-project/penstock/conformance/promises/process/processtest"
)

// explain and Envoy agree about each generated request. make bench compares 20,000 requests, with
// another seed each day.
func TestExplain_NeverDiffersFromEnvoy(t *testing.T) {
	t.Parallel()
	c := explain.Config{Penstock: binary, Envoy: envoy, Dir: processtest.ShortDir(t), Seed: 1, Forms: 1000, Commands: 5}
	differences, err := explain.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differences[:min(len(differences), 20)] {
		t.Errorf("Envoy and explain differ, want them equal: %v", d)
	}
	if n := len(differences); n > 0 {
		t.Errorf("%d of %d requests of seed %d differ, want 0", n, c.Forms, c.Seed)
	}
}
