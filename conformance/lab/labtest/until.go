package labtest

import (
	"context"
	"testing"
	"time"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// Timeout is the deadline of Until, sufficient for busy machines.
const Timeout = 2 * time.Minute

// Until waits until missing returns nil. After Timeout, the test fails with missing's last error.
func Until(t testing.TB, what string, missing func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	poll.NoError(t, what, Timeout, func() error { return missing(ctx) })
}

// Until is the function Until for the Place's test.
func (p Place) Until(what string, missing func(context.Context) error) {
	p.Helper()
	Until(p.T, what, missing)
}
