package retry

import (
	"context"
	"fmt"
	"time"
)

// Until calls check at once and then at each interval, until it succeeds. If ctx is done first,
// Until returns the last error of check and the cause of ctx.
func Until(ctx context.Context, interval time.Duration, check func(context.Context) error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}
