package endpoint

import (
	"testing"
	"time"
)

func TestServersThatAreAwayAreAskedEverMoreSeldomUntilSomebodyPicks(t *testing.T) {
	r := &Registry{config: Config{Fast: 50 * time.Millisecond, Slow: time.Second, Jitter: func() float64 { return 0.5 }}}
	for _, c := range []struct {
		failures int64
		hot      bool
		want     time.Duration
	}{
		{0, true, 50 * time.Millisecond},
		{0, false, time.Second},
		{1, false, time.Second},
		{3, false, 4 * time.Second},
		{9, false, longestPause},
		{1000, false, longestPause},
		{9, true, time.Second},
	} {
		src := &source{}
		src.failures.Store(c.failures)
		if c.hot {
			src.hotUntil.Store(int64(time.Since(processStart) + time.Hour))
		}
		if got := r.interval(src); got != c.want {
			t.Errorf("%d failures, picked from %v: %v, want %v", c.failures, c.hot, got, c.want)
		}
	}
}
