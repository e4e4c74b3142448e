package hostname

import (
	"context"
	"runtime/debug"
	"time"
)

// guardedLookup looks up a name. A panic counts as a failed lookup, so the name keeps its last
// addresses.
func (r *Resolver) guardedLookup(ctx context.Context, text string, timeout time.Duration) (a answer) {
	defer func() {
		if v := recover(); v != nil {
			r.panicked(text, v)
			a = answer{problem: "the lookup panicked, which is a bug of Penstock"}
		}
	}()
	return r.lookup(ctx, text, timeout)
}

func (r *Resolver) guardedTurn(turn func() (time.Duration, error)) (wait time.Duration, err error) {
	defer func() {
		if v := recover(); v != nil {
			r.panicked("answers of lookups", v)
			wait, err = r.cfg.Retry, nil
		}
	}()
	return turn()
}

func (r *Resolver) panicked(what string, value any) {
	if r.cfg.OnPanic != nil {
		r.cfg.OnPanic(what, value, debug.Stack())
	}
}
