package simulation

import (
	"math"
	"slices"
	"testing"
)

// The rates of four different servers are learned from first tokens or from pages, or are given.
func TestSimulation_RatesOfServersAreLearnedOrKnown(t *testing.T) {
	strategies, err := Named("load")
	if err != nil {
		t.Fatal(err)
	}
	speeds := []float64{2000, 4000, 8000, 16000}
	s := Scenario{Strategy: strategies[0], Speeds: speeds, Seed: 1}
	for _, source := range Generated(2000) {
		if source.Name == "rag" {
			s.Workload = source.Draw(4, 1)
		}
	}
	for _, s.Pages.Bare = range []bool{false, true} {
		for i, rate := range LearnedRates(s) {
			if speed := speeds[i%4]; math.Abs(rate-speed) > 0.25*speed {
				t.Errorf("pages without series %t: server %d: learned %.0f tokens a second, want about %.0f",
					s.Pages.Bare, i, rate, speed)
			}
		}
	}
	s.KnownSpeeds = true
	for i, rate := range LearnedRates(s) {
		if rate != speeds[i%4] {
			t.Errorf("server %d: known are %.0f tokens a second, want %.0f", i, rate, speeds[i%4])
		}
	}
}

// If most questions find their document cached, the server's page shows the length of steps, not
// the rate. By such rates, servers that read documents would look fast, and others slow.
func TestRates_OfServersThatRarelyReadDocuments(t *testing.T) {
	for _, rate := range []float64{16.6, 30} { // 50 and 90 % load
		s := Scenario{Strategy: named(t, "load"), Server: ServerConfig{Blocks: 400}}
		var wrong []float64
		for _, d := range Drawings(s, generated(t, "documents", 6000), rate, 3) {
			for _, learned := range LearnedRates(d.Scenario) {
				if learned > 0 {
					wrong = append(wrong, max(learned/8000, 8000/learned))
				}
			}
		}
		slices.Sort(wrong)
		if worst := wrong[len(wrong)/2]; worst > 1.6 {
			t.Errorf("at %g requests a second, half of the rates are wrong by a factor of %.2f, want at most 1.6",
				rate, worst)
		}
	}
}
