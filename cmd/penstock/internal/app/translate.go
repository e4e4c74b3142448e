package app

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/xds/cache"
)

// translate follows the store: the one way of data from objects to proxies, picker and status.
func (p *App) translate(ctx context.Context) error {
	if p.cluster == nil { // in a cluster the others are known when our own Service was read
		p.syncPeers(ctx)
	}
	sub := p.store.Subscribe()
	defer sub.Close()
	first := true
	if view := p.store.View(); view.Revision() == 0 { // nothing to wait for
		p.follow(ctx, sub, nil, view)
		p.cache.SetReady()
		first = false
	}
	for {
		revisions, view, err := sub.Next(ctx)
		if err != nil {
			return err
		}
		p.follow(ctx, sub, revisions, view)
		if first {
			p.hearPickers(ctx)
			if p.cluster != nil {
				p.syncPeers(ctx)
			}
			if revisions, view := sub.Pending(); len(revisions) > 0 {
				p.follow(ctx, sub, revisions, view)
			}
		}
		p.cache.SetReady()
		first = false
	}
}

// follow brings everything behind the store up to date with some revisions.
func (p *App) follow(ctx context.Context, sub *store.Subscription, revisions []store.Revision, view *store.View) {
	defer func(begin time.Time) { p.metrics.changes.Observe(time.Since(begin).Seconds()) }(time.Now())
	var changes []store.Change
	for _, r := range revisions {
		changes = append(changes, r.Changes...)
	}
	rev := view.Revision()
	ctx, span := p.tracer.Start(ctx, "change", trace.WithNewRoot(), trace.WithAttributes(
		attribute.Int64("rev", int64(rev)), attribute.Int("changes", len(changes))))
	defer span.End()
	_, translating := p.tracer.Start(ctx, "translate")
	out := p.updateTo(view, changes)
	if p.cluster != nil {
		out, view, changes = p.fetch(ctx, sub, out, view, changes)
		rev = view.Revision()
	}
	translating.SetAttributes(attribute.String("work", out.Work))
	translating.End()
	p.log.Debug("translated", "rev", rev, "changes", len(changes), "work", out.Work)
	p.commit(ctx, rev, out)
	if p.cluster != nil {
		p.told(view, changes, out)
	}
	if p.onGateways != nil {
		p.mu.Lock()
		gateways := p.translator.Gateways()
		p.mu.Unlock()
		p.onGateways(gateways)
	}
	p.progress.reach(rev)
}

func (p *App) updateTo(view *store.View, changes []store.Change) translator.Output {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.translator.Update(view, changes)
}

// commit hands on what an update changed.
func (p *App) commit(ctx context.Context, rev uint64, out translator.Output) {
	if out.Err != nil {
		p.log.Error("a resource could not be made; what the proxies have stays", "rev", rev, "error", out.Err)
	}
	p.board.Remove(status.Translation, out.Unsaid...)
	p.board.Set(status.Translation, out.Reports...)
	if p.ports != nil {
		out.Deltas = p.ports.filter(out.Deltas)
		p.board.Replace(status.Ports, p.ports.reports()...)
	}
	if p.pools != nil {
		for _, id := range out.PoolsGone {
			p.names.Retract(id.String())
		}
		p.relays.Follow(out.Pools, out.PoolsGone)
		p.forgotten(ctx, p.pools.before(out))
	}
	p.followPickers(out)
	var batches []cache.Batch
	for _, d := range out.Deltas {
		batches = append(batches, cache.Batch{Gateway: d.Gateway, Revision: rev, Upserts: d.Upserts, Removes: d.Removes, Trace: trace.SpanContextFromContext(ctx)})
	}
	p.departed.commit(batches...)
	if p.pools != nil {
		p.pools.after()
	}
}

// progress says how far translation has come.
type progress struct {
	mu      sync.Mutex
	begun   bool // something was translated, be it that there is nothing
	rev     uint64
	changed chan struct{} // closed and replaced when rev grows
}

func (p *progress) reach(rev uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun, p.rev = true, max(p.rev, rev)
	close(p.changed)
	p.changed = make(chan struct{})
}

// has says whether something was translated.
func (p *progress) has() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begun
}

// wait returns when revision rev has been translated and committed to the cache.
func (p *progress) wait(ctx context.Context, rev uint64) error {
	for {
		p.mu.Lock()
		done, changed := p.rev >= rev, p.changed
		p.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// Translate is the offline half: one translation of what Load read.
func (p *App) Translate() (*translator.Translator, translator.Output) {
	view := p.store.View()
	out := p.updateTo(view, store.Everything(view))
	p.board.Set(status.Translation, out.Reports...)
	return p.translator, out
}
