package app

import (
	"context"
	"time"

	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// othersFollow is how long the Envoys of other processes may take longer than ours to know what is in the same files: what
// they acknowledge is not told.
const othersFollow = 500 * time.Millisecond

// endpointsKnown returns when every Envoy that has one of the clusters has its newest endpoints, or with its context's error.
func (p *App) endpointsKnown(ctx context.Context, clusters ...string) error {
	if err := p.endpointsAcked(ctx, clusters...); err != nil || p.proxies.Elsewhere() == 0 {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(othersFollow):
		return nil
	}
}

// endpointsAcked is endpointsKnown for the Envoys that are connected to this process. It waits for the first where none is.
func (p *App) endpointsAcked(ctx context.Context, clusters ...string) error {
	none := p.xds.Connected("") == 0
	for _, gw := range p.cache.Gateways() {
		if !none && p.xds.Connected(gw.Name) == 0 {
			continue
		}
		for _, name := range clusters {
			ref := resource.Ref{Type: resource.Endpoints, Name: name}
			version, ok := p.cache.Current(gw.Name, ref)
			if !ok {
				continue
			}
			if err := p.xds.WaitAcked(ctx, gw.Name, ref, version); err != nil {
				return err
			}
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(workersFollow):
		return nil
	}
}

// workersFollow is how long after Envoy's main thread, which acknowledges, its workers may come to know of new endpoints: a
// pick that is quicker names what they do not have (seen when 50 requests came at once).
const workersFollow = 20 * time.Millisecond

// Reachable implements learned.Delivery.
func (p *App) Reachable(ctx context.Context) (waited bool, err error) {
	return p.proxies.Reachable(ctx)
}

// Delivered implements learned.Delivery.
func (p *App) Delivered(ctx context.Context, rev uint64, pool string) error {
	if !p.progress.has() {
		return nil // no Envoy is answered before the first translation, which will have it
	}
	if err := p.progress.wait(ctx, rev); err != nil {
		return err
	}
	id, _ := model.ParsePoolID(pool)
	var clusters []string
	p.mu.Lock()
	for _, c := range p.translator.PoolClusters(id) {
		clusters = append(clusters, c.String())
	}
	p.mu.Unlock()
	clusters = append(clusters, p.departed.learn(pool, learnedAddresses(p.store.View(), pool))...)
	if len(clusters) == 0 || p.xds.Connected("") == 0 {
		return nil // nobody can ask for it any more; or no Envoy is here that could know it
	}
	return p.endpointsAcked(ctx, clusters...)
}

// Isolated implements learned.Delivery.
func (p *App) Isolated() bool { return p.xds.Connected("") == 0 && p.channel.Isolated() }
