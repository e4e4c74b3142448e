package supervisor

import (
	"context"
	"errors"
	"runtime"
)

// Thread runs functions on one thread of the system. It starts the Envoys of a process whose
// program is replaced in place: the kernel kills a child with the thread that started it, and of
// all threads only the one that executes the new program survives that.
type Thread struct {
	work  chan func() error
	done  chan error
	ended chan struct{}
}

// NewThread makes a Thread.
func NewThread() *Thread {
	return &Thread{work: make(chan func() error), done: make(chan error), ended: make(chan struct{})}
}

// Run is called once. It uses the caller's thread until ctx ends.
func (t *Thread) Run(ctx context.Context) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(t.ended)
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-t.work:
			t.done <- f()
		}
	}
}

// Do returns the error of f, or another one if Run has returned.
func (t *Thread) Do(f func() error) error {
	select {
	case t.work <- f:
		return <-t.done
	case <-t.ended:
		return errors.New("penstock ends")
	}
}
