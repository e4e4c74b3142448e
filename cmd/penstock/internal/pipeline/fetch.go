package pipeline

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/penstock-project/penstock/cmd/penstock/internal/delivery"
	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/graph"
)

const (
	// fetchTimeout is how long a row of the translation waits for an object that is not read yet.
	// Then the row is computed without the object.
	fetchTimeout = 3 * time.Second
	// fetchRounds bounds how often one change is translated again because of further objects.
	fetchRounds = 5
)

// Source reads objects on demand. *kube.Source implements it.
type Source interface {
	// Want adds and removes demands. The channel of a wanted demand closes when its objects are
	// read.
	Want(wanted, unwanted []kube.Demand) []<-chan struct{}
	Flush() error
	// Park moves objects without a demand out of the store. It is called after the first
	// translation.
	Park()
	Forbidden() bool
}

// Fetch makes a Source read the objects that translation newly reads, and then translates again.
// The first translation waits for all objects, because proxies would otherwise lose resources.
// Later ones hold back only the rows that read a missing object (graph.Engine.WaitForDemands).
type Fetch struct {
	source      Source
	translation *Translation
	log         *slog.Logger

	begun bool // the first translation is complete; only the pipeline's goroutine uses it

	mu      sync.Mutex
	arrived []graph.Key
	ready   chan struct{}
}

// NewFetch makes a Fetch.
func NewFetch(source Source, t *Translation, log *slog.Logger) *Fetch {
	return &Fetch{source: source, translation: t, log: log, ready: make(chan struct{}, 1)}
}

// Ready has an element when objects have arrived for which rows wait.
func (f *Fetch) Ready() <-chan struct{} {
	if f == nil {
		return nil
	}
	return f.ready
}

func (f *Fetch) take() []graph.Key {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	arrived := f.arrived
	f.arrived = nil
	f.mu.Unlock()
	if len(arrived) > 0 {
		f.flush()
	}
	return arrived
}

func (f *Fetch) arrive(keys ...graph.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.arrived = append(f.arrived, keys...)
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

func (f *Fetch) complete(ctx context.Context, sub *store.Subscription, c *delivery.Change) *delivery.Change {
	if f == nil {
		return c
	}
	if !f.begun {
		c, f.begun = f.completeFirst(ctx, sub, c), true
	}
	for range fetchRounds {
		arrived := f.request(ctx, &c.Output)
		if len(arrived) == 0 {
			return c
		}
		f.flush()
		c = f.again(sub, c, arrived)
	}
	f.arrive(f.request(ctx, &c.Output)...)
	return c
}

func (f *Fetch) completeFirst(ctx context.Context, sub *store.Subscription, c *delivery.Change) *delivery.Change {
	parked := false
	for range fetchRounds {
		if len(c.Output.Wanted)+len(c.Output.Unwanted) == 0 {
			if parked {
				break
			}
			f.source.Park()
			parked = true
		}
		wanted, unwanted := demands(c.Output.Wanted), demands(c.Output.Unwanted)
		c.Output.Wanted, c.Output.Unwanted = nil, nil
		for i, read := range f.source.Want(wanted, unwanted) {
			f.await(ctx, wanted[i], read)
		}
		f.flush()
		c = f.again(sub, c, nil)
	}
	f.translation.WaitForDemands()
	return c
}

func (f *Fetch) await(ctx context.Context, d kube.Demand, read <-chan struct{}) {
	for {
		select {
		case <-read:
			return
		case <-ctx.Done():
			return
		case <-time.After(fetchTimeout):
		}
		if f.source.Forbidden() {
			f.log.Warn("translating without objects that the API server forbids to read", "kind", d.Table, "key", d.Key)
			return
		}
		f.log.Warn("no proxy is answered before everything is read once", "kind", d.Table, "key", d.Key)
	}
}

// request requests objects. It returns the keys whose objects are already read; the others arrive
// later.
func (f *Fetch) request(ctx context.Context, out *translator.Output) (arrived []graph.Key) {
	keys := out.Wanted
	if len(keys)+len(out.Unwanted) == 0 {
		return nil
	}
	channels := f.source.Want(demands(keys), demands(out.Unwanted))
	out.Wanted, out.Unwanted = nil, nil
	for i, read := range channels {
		select {
		case <-read:
			arrived = append(arrived, keys[i])
		default:
			go f.expect(ctx, keys[i], read)
		}
	}
	return arrived
}

func (f *Fetch) expect(ctx context.Context, key graph.Key, read <-chan struct{}) {
	timeout := time.NewTimer(fetchTimeout)
	defer timeout.Stop()
	select {
	case <-ctx.Done():
		return
	case <-read:
	case <-timeout.C:
		f.log.Warn("translating without objects that cannot be read now", "kind", key.Table, "key", key.Key)
	}
	f.arrive(key)
}

func (f *Fetch) again(sub *store.Subscription, c *delivery.Change, arrived []graph.Key) *delivery.Change {
	revisions, now := sub.Pending()
	if len(revisions)+len(arrived) == 0 {
		return c
	}
	var more []store.Change
	for _, r := range revisions {
		more = append(more, r.Changes...)
	}
	later := f.translation.Update(now, more, arrived...)
	next := &delivery.Change{View: now, Objects: append(c.Objects, more...), Output: c.Output.Then(later)}
	next.Output.Wanted, next.Output.Unwanted = later.Wanted, later.Unwanted
	return next
}

func (f *Fetch) flush() {
	if err := f.source.Flush(); err != nil {
		f.log.Error("fetched objects cannot be stored", "error", err)
	}
}

func demands(keys []graph.Key) []kube.Demand {
	out := make([]kube.Demand, len(keys))
	for i, k := range keys {
		out[i] = kube.Demand(k)
	}
	return out
}
