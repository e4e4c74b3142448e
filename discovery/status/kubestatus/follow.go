package kubestatus

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

const followRetry = time.Second

func (w *Writer) follow(ctx context.Context) error {
	for {
		err := w.guard("the reports of all objects", func() error { return w.followBoard(ctx) })
		if ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followRetry):
		}
	}
}

func (w *Writer) followBoard(ctx context.Context) error {
	feed := w.cfg.Board.Follow()
	defer feed.Close()
	w.invalidate(w.cfg.Source.LiveRefs()...)
	for {
		refs, err := feed.Next(ctx)
		if err != nil {
			return err
		}
		w.invalidate(refs...)
	}
}

// guard calls f, and converts a panic to an error. So this object's write is retried, and other
// objects are still written.
func (w *Writer) guard(object string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			if w.cfg.OnPanic != nil {
				w.cfg.OnPanic(object, v, debug.Stack())
			}
			err = fmt.Errorf("making the status panics, which is a bug of Penstock: %.256v", v)
		}
	}()
	return f()
}
