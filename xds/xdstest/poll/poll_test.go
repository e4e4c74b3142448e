package poll_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func TestPoll_ReturnsOnceTheConditionHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		poll.Until(t, "two seconds", func() bool { return time.Since(start) >= 2*time.Second })
		poll.NoError(t, "three seconds", time.Minute, func() error {
			if time.Since(start) < 3*time.Second {
				return errors.New("too early")
			}
			return nil
		})
		if took := time.Since(start); took > 3100*time.Millisecond {
			t.Errorf("noticed after %v, want at most %v", took, 3100*time.Millisecond)
		}
	})
}

func TestPoll_NeverObservesTheWholeWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var last time.Duration
		poll.Never(t, "four seconds", 3*time.Second, func() bool {
			last = time.Since(start)
			return last >= 4*time.Second
		})
		if took := time.Since(start); took != 3*time.Second || last != took {
			t.Errorf("got %v with the last check at %v, want 3s and a check at its end", took, last)
		}
	})
}

func TestPoll_FailureNamesTheCondition(t *testing.T) {
	for _, c := range []struct {
		want  string
		limit time.Duration
		poll  func(testing.TB)
	}{
		{"not within 30s: the listener is open", 30 * time.Second, func(t testing.TB) {
			poll.Until(t, "the listener is open", func() bool { return false })
		}},
		{"not within 7s: the listener is open", 7 * time.Second, func(t testing.TB) {
			poll.For(t, "the listener is open", 7*time.Second, func() bool { return false })
		}},
		{"not within 7s: the listener is open: port 80 is closed", 7 * time.Second, func(t testing.TB) {
			poll.NoError(t, "the listener is open", 7*time.Second,
				func() error { return errors.New("port 80 is closed") })
		}},
		{"after 0s, which should not happen within 7s: the listener is open", 0, func(t testing.TB) {
			poll.Never(t, "the listener is open", 7*time.Second, func() bool { return true })
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			start, r := time.Now(), &recorder{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				c.poll(r)
			}()
			<-done
			if !strings.Contains(r.failure, c.want) {
				t.Errorf("failed with %q, want %q", r.failure, c.want)
			}
			if took := time.Since(start); took != c.limit {
				t.Errorf("failed after %v, want %v", took, c.limit)
			}
		})
	}
}

type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
