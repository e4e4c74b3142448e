package features

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/picker/scoring/scoringtest"
)

// An external scorer, which prefers pod-2, decides.
func TestScorer_ExternalOneIsAsked(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("pod-1")
	s.server("pod-2")
	second := s.address("pod-2")
	at := scoringtest.Start(t, func(_ context.Context, request []byte) ([]byte, error) {
		var scores []float64
		for _, c := range scoringtest.Fields(request, 3) {
			score := 0.0
			if string(scoringtest.Fields(c, 1)[0]) == second {
				score = 1
			}
			scores = append(scores, score)
		}
		return scoringtest.Scores(scores...), nil
	})
	s.ports["scorer"] = int(at.Port())
	s.closed("nothing")
	s.up("scorer.yaml")
	s.answers("/", http.StatusOK) // served without the scorer, too
	s.reports("external-scorer: there is no Service default/scorer")
	if text := s.print("status", "-o", "json"); !strings.Contains(text, "InvalidScorerRef") {
		t.Errorf("status: got\n%s\nwant InvalidScorerRef", text)
	}
	s.write("scorer.yaml", with("scorer"))
	s.goes("/", "pod-2", 10)
	// On a busy machine the scorer may answer a pick too late. Its servers then have no scores.
	s.Eventually("explain has the scores of a pick", func() error {
		s.served("/")
		text := s.explain(s.url("/"))
		for _, want := range []string{
			"score 1.000 (external-scorer 1.000 x 1)", "score 0.000 (external-scorer 0.000 x 1)",
			"are from the pick at 20",
		} {
			if !strings.Contains(text, want) {
				return fmt.Errorf("got\n%s\nwant %q", text, want)
			}
		}
		return nil
	})
}
