package supervisor

import (
	"context"
	"errors"
	"runtime"
)

// Thread runs functions on one OS thread. It starts the Envoys of a process that later executes
// another program: the kernel kills a child when its thread ends, and only the thread that calls
// exec survives it.
type Thread struct {
	work  chan func() error
	done  chan error
	ended chan struct{}
}

func NewThread() *Thread {
	return &Thread{work: make(chan func() error), done: make(chan error), ended: make(chan struct{})}
}

// Run uses the caller's thread until ctx ends. It is called once.
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

// Do runs f and returns its error, or returns an error if Run has returned.
func (t *Thread) Do(f func() error) error {
	select {
	case t.work <- f:
		return <-t.done
	case <-t.ended:
		return errors.New("penstock ends")
	}
}
