package pipeline

import (
	"context"
	"log/slog"
	"time"

	"github.com/penstock-project/penstock/cmd/penstock/internal/delivery"
	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/store"
)

const (
	// fetchTimeout is how long a change waits for objects that it is the first to refer to. They belong to the same change: a
	// listener whose certificate is still to be read must not close. The first translation waits on.
	fetchTimeout = 3 * time.Second
	// fetchRounds bounds how often fetched objects refer to others that must be fetched.
	fetchRounds = 5
)

// Source reads objects on demand. *kube.Source implements it.
type Source interface {
	Want(ctx context.Context, wanted, unwanted []kube.Demand) error
	Forbidden() bool
}

// Demand is a Fetch from the API server.
type Demand struct {
	Source      Source
	Translation *Translation
	Progress    *delivery.Progress
	Log         *slog.Logger
}

// Fetch has the source read what an update has begun to read, and translates on, until nothing is missing. A change waits
// for fetchTimeout. The first translation, after which proxies are answered, waits as long as it takes: what is missing would
// be taken from proxies that have it.
func (d *Demand) Fetch(ctx context.Context, sub *store.Subscription, c *delivery.Change) *delivery.Change {
	if d.Progress.Begun() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, fetchTimeout)
		defer cancel()
	}
	for range fetchRounds {
		settled := len(c.Output.Wanted)+len(c.Output.Unwanted) == 0
		if settled && d.Progress.Begun() { // the first time the source waits for a call without demands
			break
		}
		wanted, unwanted := demands(c.Output.Wanted), demands(c.Output.Unwanted)
		c.Output.Wanted, c.Output.Unwanted = nil, nil
		d.want(ctx, wanted, unwanted)
		revisions, now := sub.Pending()
		if len(revisions) == 0 && settled {
			break
		}
		if len(revisions) == 0 {
			continue
		}
		var more []store.Change
		for _, r := range revisions {
			more = append(more, r.Changes...)
		}
		later := d.Translation.Update(now, more)
		next := &delivery.Change{View: now, Objects: append(c.Objects, more...), Output: c.Output.Then(later)}
		next.Output.Wanted, next.Output.Unwanted = later.Wanted, later.Unwanted
		c = next
	}
	return c
}

// want has the source read demands. What the API server forbids does not arrive by waiting.
func (d *Demand) want(ctx context.Context, wanted, unwanted []kube.Demand) {
	for {
		try, cancel := context.WithTimeout(ctx, fetchTimeout)
		err := d.Source.Want(try, wanted, unwanted)
		cancel()
		switch {
		case err == nil || ctx.Err() == context.Canceled:
			return
		case ctx.Err() != nil || d.Source.Forbidden():
			d.Log.Warn("translating without objects that cannot be read now", "error", err)
			return
		}
		d.Log.Warn("no proxy is answered before everything is read once", "error", err)
	}
}

func demands[K ~struct{ Table, Index, Key string }](keys []K) []kube.Demand {
	out := make([]kube.Demand, len(keys))
	for i, k := range keys {
		out[i] = kube.Demand(k)
	}
	return out
}
