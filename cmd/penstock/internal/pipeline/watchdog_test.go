package pipeline

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestHealth_FailsOnlyWhileTranslationIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rows atomic.Uint64
		w := watchdog{rows: rows.Load}
		after := func(d time.Duration, want bool) {
			t.Helper()
			time.Sleep(d) // on synctest's clock
			synctest.Wait()
			if got := w.stuck.Load(); got != want {
				t.Errorf("stuck: %t, want %t", got, want)
			}
		}
		after(time.Hour, false) // nothing to do
		end := w.begin()
		after(StuckAfter-time.Second, false)
		rows.Add(1)
		after(StuckAfter-time.Second, false) // a slow change
		after(StuckAfter, true)
		rows.Add(1)
		after(StuckAfter, false)
		after(StuckAfter, true)
		end()
		after(time.Hour, false)
	})
}
