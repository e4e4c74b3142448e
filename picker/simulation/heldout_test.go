package simulation

import (
	"math"
	"testing"
)

// The workloads shaped like Mooncake's traces have the means in table 2 of its paper (FAST 2025).
func TestHeldOut_ShapesHaveTheMeansOfTheirTraces(t *testing.T) {
	want := map[string]struct{ input, output, cached float64 }{
		"toolagent": {8596, 182, 0.59},
		"synthetic": {15325, 149, 0.66},
	}
	for _, source := range HeldOut(8000, 1, 0) {
		w := source.Draw(4, 1)
		var input, output, blocks, cached float64
		seen := map[int32]bool{}
		for _, r := range w.Requests {
			input += float64(r.Input)
			output += float64(r.Output)
			for _, b := range r.Blocks {
				blocks++
				if seen[b] {
					cached++
				}
				seen[b] = true
			}
		}
		n := float64(len(w.Requests))
		m := want[source.Name]
		for _, c := range []struct {
			name      string
			got, want float64
		}{{"input", input / n, m.input}, {"output", output / n, m.output}, {"cached", cached / blocks, m.cached}} {
			if math.Abs(c.got/c.want-1) > 0.08 {
				t.Errorf("%s %s: got %.4g, want %.4g", source.Name, c.name, c.got, c.want)
			}
		}
	}
}

func TestHeldOut_SeedDrawsWorkloads(t *testing.T) {
	about := func(seed uint64) (text string) {
		for _, s := range HeldOut(10, seed, 3)[2:] {
			text += s.About
		}
		return text
	}
	one, again, other := about(1), about(1), about(2)
	if one != again || one == other {
		t.Errorf("got %s, again %s, and %s of another seed; want the first two equal, the last not", one, again, other)
	}
}
