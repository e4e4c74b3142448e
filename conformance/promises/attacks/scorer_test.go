package attacks

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/scoring/scoringtest"
)

func scorerObjects(port uint16) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: scorer}
spec:
  ports: [{name: grpc, port: 9003, appProtocol: kubernetes.io/h2c}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: scorer-1, labels: {kubernetes.io/service-name: scorer}}
addressType: IPv4
ports: [{name: grpc, port: %d}]
endpoints: [{addresses: [127.0.0.1]}]
---
apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: chat}
spec:
  targetRef: {name: chat}
  picker: {strategy: plugins, plugins: {scorers: [{type: external-scorer, parameters: {service: scorer, port: 9003}}]}}
`, port)
}

func (s *site) median(requests int) time.Duration {
	s.Helper()
	var took []time.Duration
	for range requests {
		began := time.Now()
		if err := s.ask(http.MethodPost, "/v1/chat/completions",
			`{"model":"m","messages":[{"role":"user","content":"hello"}]}`); err != nil {
			s.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// undelayed waits until half of 50 requests take less than most. The machine may delay some
// requests, but not most.
func (s *site) undelayed(what string, most time.Duration) {
	s.Helper()
	s.Eventually(what+": requests are not delayed", func() error {
		if took := s.median(50); took > most {
			return fmt.Errorf("half of the requests took more than %v, want at most %v", took, most)
		}
		return nil
	})
}

func TestExternalScorer_HostileOneDelaysNoRequest(t *testing.T) {
	var answer atomic.Pointer[func(context.Context) ([]byte, error)]
	var calls atomic.Int64
	set := func(f func(context.Context) ([]byte, error)) { answer.Store(&f) }
	set(func(context.Context) ([]byte, error) { return scoringtest.Scores(1), nil })
	scorer := scoringtest.Start(t, func(ctx context.Context, _ []byte) ([]byte, error) {
		calls.Add(1)
		return (*answer.Load())(ctx)
	})
	s := start(t, map[string]string{"scorer.yaml": scorerObjects(scorer.Port())})
	counted := func(outcome string) string {
		text, err := s.page("/metrics")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(text,
			fmt.Sprintf(`penstock_picker_external_scores_total{outcome=%q,pool="default/chat"} `, outcome))
		value, _, _ := strings.Cut(rest, "\n")
		return value
	}
	s.Eventually("the scorer is asked", func() error {
		if err := s.ask(http.MethodPost, "/v1/chat/completions", "{}"); err != nil || counted("scored") == "" {
			return fmt.Errorf("%d calls: %w, want at least 1, and one scored", calls.Load(), err)
		}
		return nil
	})
	before, peak := s.rss(s.penstock), s.peak(s.penstock)
	huge := make([]byte, 64<<20)
	for _, attack := range []struct {
		name    string
		answer  func(context.Context) ([]byte, error)
		outcome string
	}{
		{"hangs", func(ctx context.Context) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() }, "failed"},
		{"hangs after its deadline, too", func(context.Context) ([]byte, error) {
			<-t.Context().Done()
			return nil, nil
		}, "failed"},
		{"64 MiB", func(context.Context) ([]byte, error) { return huge, nil }, "failed"},
		{"no number", func(context.Context) ([]byte, error) { return scoringtest.Scores(math.NaN()), nil }, "scored"},
		{"infinite", func(context.Context) ([]byte, error) { return scoringtest.Scores(math.Inf(1)), nil }, "scored"},
		{"an error of 8 MiB", func(context.Context) ([]byte, error) { return nil, fmt.Errorf("%s", huge[:8<<20]) },
			"failed"},
	} {
		outcomes, last := counted(attack.outcome), calls.Load()
		set(attack.answer)
		s.Eventually(attack.name+": the scorer is asked again", func() error { // Penstock may have skipped the scorer
			s.median(20)
			if now := counted(attack.outcome); now == outcomes || calls.Load() == last {
				return fmt.Errorf("%s calls %s, want more", now, attack.outcome)
			}
			return nil
		})
		s.undelayed(attack.name, 50*time.Millisecond)
		t.Logf("%s: %d calls", attack.name, calls.Load()-last)
	}
	if most := peak(); most > before+64 {
		t.Errorf("penstock had %.0f MiB before, and %.0f MiB at the peak, want at most %.0f", before, most, before+64)
	}
}
