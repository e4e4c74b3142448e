package features

import (
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"
)

// frozenCost bounds a request's delay by a frozen picker: 3 s, and the delays of a busy machine. If
// unanswered calls did not time out, the delay would be 12 s.
const frozenCost = 7 * time.Second

const picked = `penstock_picker_picks_total{pool="default/chat",result="picked"}`

// A frozen picker accepts calls and does not answer. A request whose call has begun must wait;
// later requests follow the failure mode at once.
func TestExternalPicker_FrozenCostsSecondsAndThenTheFailureModeCounts(t *testing.T) {
	t.Parallel()
	for mode, then := range map[string]int{"FailOpen": http.StatusOK, "FailClose": http.StatusServiceUnavailable} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.server("pod-1")
			s.server("pod-2")
			picker := s.alone("epp", "externalpicker.yaml", with("external", "two"))
			s.up("externalpicker.yaml", with("external", "slice", "two"),
				swap("failureMode: FailClose", "failureMode: "+mode))
			s.answers("/", http.StatusOK)
			for range 2 {
				picker.penstock.Signal(syscall.SIGSTOP)
				s.atOnce(4, func(got reply, took time.Duration) bool {
					// 504: the call timed out before its connection did
					return (got.status == then || got.status == http.StatusServiceUnavailable ||
						got.status == http.StatusGatewayTimeout) && took < frozenCost
				})
				s.reports("it accepts connections and does not answer")
				for range 3 {
					s.atOnce(4, func(got reply, took time.Duration) bool {
						return got.status == then && took < frozenCost/2
					})
				}
				picker.penstock.Signal(syscall.SIGCONT)
				s.Eventually("the picker is asked again", func() error {
					before := picker.series(picked)
					for range 5 {
						if _, err := s.ask("/", question); err != nil {
							return err
						}
					}
					now := picker.series(picked)
					return because(now == before+5, now-before, " of 5 requests were picked for")
				})
				s.atOnce(4, func(got reply, _ time.Duration) bool { return got.status == http.StatusOK })
			}
		})
	}
}

func (s *site) atOnce(requests int, holds func(got reply, took time.Duration) bool) {
	s.Helper()
	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			begin := time.Now()
			got, err := s.ask("/", question)
			took := time.Since(begin)
			s.Logf("%d after %s", got.status, took.Round(time.Millisecond))
			if err != nil || !holds(got, took) {
				s.Errorf("got %d %s after %s: %v", got.status, got.body, took, err)
			}
		})
	}
	all.Wait()
}
