package kubetest

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// Run runs f until the test ends, then cancels f's context. The test fails if f returns an error
// other than this cancellation.
func Run(t testing.TB, f func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := f(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		wg.Wait()
	})
}
