package labtest

import (
	"context"
	"testing"
	"time"
)

// Patience is how long a test waits for what must come. It is generous, for busy machines: nothing here measures time.
const Patience = 2 * time.Minute

// between is how long Until waits before it asks again.
const between = 100 * time.Millisecond

// Until asks until something holds: missing says what is still wrong, and nil that nothing is. After Patience the test fails with what was
// said last.
func Until(t testing.TB, what string, missing func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	for {
		err := missing(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-time.After(between):
		}
	}
}

// Until asks until something holds, as the function Until does.
func (p Place) Until(what string, missing func(context.Context) error) {
	p.Helper()
	Until(p.T, what, missing)
}
