package picker

import (
	"context"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/picker/liveness"
)

func (p *Picker) look(ctx context.Context, t *turn) {
	w := &p.watch
	w.mu.Lock()
	n, at := t.pool.watchedServers()
	var first watched
	var others []watched
	used := time.Since(t.noteUse()) < usedFor
	for i := range min(n, maxLooked) {
		s := at((t.server + i) % n)
		s.used = used
		if i == 0 {
			first = s
		} else {
			others = append(others, s)
		}
	}
	t.server++
	down := slices.ContainsFunc(others, func(s watched) bool {
		why, _ := t.sights[s.addr].Down(s.good())
		return why != ""
	})
	w.mu.Unlock()
	if n > 0 {
		p.probeServers(ctx, t, first, others, down)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.open = false
	// A report about a pool that is no longer in the ring would never be resolved by a later look.
	if w.turns[t.pool.Name] == t && t.inRing {
		n, at = t.pool.watchedServers()
		p.judge(t, n, at)
	}
}

func (p *Picker) probeServers(ctx context.Context, t *turn, first watched, others []watched, all bool) {
	var probes errgroup.Group
	probes.SetLimit(maxAtOnce)
	works := make(chan bool, 1)
	probes.Go(func() error {
		works <- p.probeServer(ctx, t, first)
		return nil
	})
	if !all {
		hedge := time.NewTimer(hedgeAfter)
		defer hedge.Stop()
		select {
		case up := <-works:
			all = !up
		case <-hedge.C:
			all = true
		}
	}
	for _, s := range others {
		if all {
			probes.Go(func() error {
				p.probeServer(ctx, t, s)
				return nil
			})
		}
	}
	_ = probes.Wait() // no probe returns an error
}

// probeServer probes a server, and returns whether it works. If the first probe leaves this in
// doubt and the pool is used, probeServer probes once more.
func (p *Picker) probeServer(ctx context.Context, t *turn, s watched) (up bool) {
	defer func() {
		if v := recover(); v != nil {
			p.config.Troubles.Panicked("probe of "+s.addr.String(), v, debug.Stack())
		}
	}()
	up, doubted := p.probeOnce(ctx, t, s)
	if doubted && s.used {
		up, _ = p.probeOnce(ctx, t, s)
	}
	return up
}

func (p *Picker) probeOnce(ctx context.Context, t *turn, s watched) (up, doubted bool) {
	var take func(*liveness.Sight, liveness.Shown) (up, again bool)
	if s.gateway {
		take = p.asks.liveness.Reach(ctx, s.addr)
	} else {
		take = p.asks.liveness.Look(ctx, s.addr, s.by)
	}
	if ctx.Err() != nil {
		return true, false
	}
	p.watch.mu.Lock()
	defer p.watch.mu.Unlock()
	sight := t.sights[s.addr]
	if sight == nil {
		sight = new(liveness.Sight)
		t.sights[s.addr] = sight
	}
	shown := liveness.Shown{Good: s.good(), Read: s.read(), Enough: idleProof}
	if s.used {
		shown.Enough = usedProof
	}
	up, again := take(sight, shown)
	if again && s.end != nil {
		s.end.Load().Revived()
	}
	return up, sight.Doubted()
}
