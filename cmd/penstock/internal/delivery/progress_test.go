package delivery

import (
	"context"
	"errors"
	"testing"
)

func TestProgress_WaitEndsWithItsRevision(t *testing.T) {
	p := NewProgress()
	d := New(p)
	if p.Begun() {
		t.Error("begun before the first change")
	}
	done := make(chan error, 1)
	go func() { done <- p.Wait(t.Context(), 3) }()
	d.Deliver(t.Context(), &Change{Revision: 2})
	d.Deliver(t.Context(), &Change{Revision: 3})
	if err := <-done; err != nil || !p.Begun() || p.Revision() != 3 {
		t.Errorf("got revision %d: %v, want 3", p.Revision(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Wait(ctx, 4); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}
