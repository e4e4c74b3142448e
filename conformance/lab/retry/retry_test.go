package retry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestRetry_StopsAtSuccessAndReportsTheLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, missing := time.Now(), errors.New("missing")
		if err := Until(t.Context(), time.Second, func(context.Context) error {
			if time.Since(start) < 3*time.Second {
				return missing
			}
			return nil
		}); err != nil || time.Since(start) != 3*time.Second {
			t.Errorf("%v after %s, want %s", err, time.Since(start), 3*time.Second)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		err := Until(ctx, time.Second, func(context.Context) error { return missing })
		if !errors.Is(err, missing) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want %v and %v", err, missing, context.DeadlineExceeded)
		}
	})
}
