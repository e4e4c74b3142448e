package pipeline

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-project/penstock/cmd/penstock/internal/delivery"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/xds/cache"
)

// Config configures a Pipeline.
type Config struct {
	Store       *store.Store
	Translation *Translation
	Delivery    *delivery.Delivery
	Cache       *cache.Cache
	// Fetch is nil if the store has all objects.
	Fetch *Fetch
	// Names is called with the host names that a translation newly uses, and those that it no
	// longer uses. It must not block; may be nil.
	Names func(names, gone []string)
	// Before runs before the first translation. First runs after the first translation,
	// before any proxy receives a response.
	Before, First []func(context.Context)
	// Observe receives the duration of each change, in seconds.
	Observe func(seconds float64)
	Tracer  trace.Tracer
	Log     *slog.Logger
}

// Pipeline follows the store.
type Pipeline struct{ cfg Config }

// New makes a Pipeline.
func New(cfg Config) *Pipeline { return &Pipeline{cfg} }

// Run translates and delivers until ctx ends.
func (p *Pipeline) Run(ctx context.Context) error {
	for _, run := range p.cfg.Before {
		run(ctx)
	}
	sub := p.cfg.Store.Subscribe()
	defer sub.Close()
	first := true
	if view := p.cfg.Store.View(); view.Revision() == 0 {
		p.follow(ctx, sub, nil, view)
		p.cfg.Cache.SetReady()
		first = false
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-sub.Ready():
		case <-p.cfg.Fetch.Ready():
		}
		arrived := p.cfg.Fetch.take()
		revisions, view := sub.Pending()
		if len(revisions)+len(arrived) == 0 {
			continue
		}
		p.follow(ctx, sub, revisions, view, arrived...)
		if first {
			for _, run := range p.cfg.First {
				run(ctx)
			}
			if revisions, view := sub.Pending(); len(revisions) > 0 {
				p.follow(ctx, sub, revisions, view)
			}
		}
		p.cfg.Cache.SetReady()
		first = false
	}
}

func (p *Pipeline) follow(ctx context.Context, sub *store.Subscription, revisions []store.Revision, view *store.View,
	arrived ...graph.Key) {
	defer func(begin time.Time) { p.cfg.Observe(time.Since(begin).Seconds()) }(time.Now())
	c := &delivery.Change{View: view}
	for _, r := range revisions {
		c.Objects = append(c.Objects, r.Changes...)
	}
	run := ctx // ends with Run, because it outlives the change
	ctx, span := p.cfg.Tracer.Start(ctx, "change", trace.WithNewRoot(), trace.WithAttributes(
		attribute.Int64("rev", int64(view.Revision())), attribute.Int("changes", len(c.Objects))))
	defer span.End()
	_, translating := p.cfg.Tracer.Start(ctx, "translate")
	c.Output = p.cfg.Translation.Update(view, c.Objects, arrived...)
	c = p.cfg.Fetch.complete(run, sub, c)
	if p.cfg.Names != nil {
		p.cfg.Names(c.Output.Names, c.Output.NamesGone)
	}
	c.Revision, c.Trace = c.View.Revision(), trace.SpanContextFromContext(ctx)
	translating.SetAttributes(attribute.String("work", c.Output.Work))
	translating.End()
	p.cfg.Log.Debug("translated", "rev", c.Revision, "changes", len(c.Objects), "work", c.Output.Work)
	defer p.cfg.Translation.watch.begin()()
	p.cfg.Delivery.Deliver(ctx, c)
}
