package poll

import (
	"errors"
	"testing"
	"time"
)

// Limit is generous enough for a busy machine.
const Limit = 30 * time.Second

const (
	first   = time.Millisecond
	longest = 50 * time.Millisecond
)

// Until returns once holds() is true, or ends the test after Limit. holds may call t.Fatal.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	For(t, what, Limit, holds)
}

// For is Until with another limit.
func For(t testing.TB, what string, limit time.Duration, holds func() bool) {
	t.Helper()
	if !Within(limit, holds) {
		t.Fatalf("not within %v: %s", limit, what)
	}
}

// NoError returns once check() is nil, or ends the test after limit with its last error.
func NoError(t testing.TB, what string, limit time.Duration, check func() error) {
	t.Helper()
	err := errors.New("not checked")
	if !Within(limit, func() bool { err = check(); return err == nil }) {
		t.Fatalf("not within %v: %s: %v", limit, what, err)
	}
}

// Never ends the test if happens() is true within window.
func Never(t testing.TB, what string, window time.Duration, happens func() bool) {
	t.Helper()
	start := time.Now()
	if Within(window, happens) {
		t.Fatalf("after %v, which should not happen within %v: %s", time.Since(start), window, what)
	}
}

// Within reports whether holds() becomes true within limit.
func Within(limit time.Duration, holds func() bool) bool {
	deadline := time.Now().Add(limit)
	for wait := first; !holds(); wait = min(2*wait, longest) {
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		time.Sleep(min(wait, left))
	}
	return true
}
