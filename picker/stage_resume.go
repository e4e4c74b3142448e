package picker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
)

// OnDemand has pools whose model servers are stopped without requests. Its methods are called
// concurrently.
type OnDemand interface {
	// Demand returns how requests start the servers of a pool; false if requests start none.
	Demand(pool objectid.Target) (Demand, bool)
	// Resume requests a server for a pool, and waits until one serves. It returns an error if none
	// will, or ctx ends. The request stays in effect after ctx has ended.
	Resume(ctx context.Context, pool objectid.Target) error
}

// Demand describes a pool whose servers start on demand.
type Demand struct {
	Model string
	Limit time.Duration
}

const maxResuming = 1024

// use counts a pool's requests. A new configuration of the pool keeps the use.
type use struct {
	began   time.Time
	picking atomic.Int64 // picks of the pool's servers, from find to settle, except held picks
	held    atomic.Int64 // picks that wait for the start of a server
	last    atomic.Int64 // time of the last pick since began
}

// Use describes the requests of a pool.
type Use struct {
	Known bool // the picker has the pool and picks its servers
	// Accepts reports whether picks name a server of the pool.
	Accepts bool
	// Active counts the requests in picks and at servers. It cannot grow while Accepts is false.
	Active int64
	// Held counts the requests that wait for a server to start.
	Held int64
	// Last is the time of the last pick, or zero.
	Last time.Time
}

// Use describes a pool's requests, also at draining servers but not at removed ones.
func (p *Picker) Use(id objectid.Target) (u Use) {
	pool := p.pool(id.String())
	if pool == nil || pool.use == nil {
		return u
	}
	u.Known, u.Accepts = true, pool.accepts
	// This order of reads misses no pick: a pick that leaves picking already counts at its server,
	// and a pick that leaves held already counts in picking.
	u.Active, u.Held = pool.use.picking.Load(), pool.use.held.Load()
	u.Active = max(u.Active, pool.use.picking.Load())
	for i := range pool.snapshot.Endpoints {
		u.Active += pool.snapshot.Endpoints[i].Load().Total()
	}
	if last := pool.use.last.Load(); last != 0 {
		u.Last = pool.use.began.Add(time.Duration(last))
	}
	return u
}

// ServerUse is Use for one server of a pool. Active counts a request from the pick's lease on.
func (p *Picker) ServerUse(id objectid.Target, server netip.AddrPort) (u Use) {
	pool := p.pool(id.String())
	if pool == nil || pool.use == nil {
		return u
	}
	u.Known = true
	for i := range pool.snapshot.Endpoints {
		if e := &pool.snapshot.Endpoints[i]; e.Addr == server {
			u.Accepts, u.Active = !e.Draining, e.Load().Total()
		}
	}
	return u
}

// setUse takes pool.use over from the old pool, and sets pool.accepts. The snapshot must be set.
func (pool *pool) setUse(old *pool) {
	if pool.Clusters != nil || pool.Relay != nil || pool.Gateways {
		pool.accepts = true
		return
	}
	if pool.use = old.usage(); pool.use == nil {
		pool.use = &use{began: time.Now()}
	}
	for i := range pool.snapshot.Endpoints {
		pool.accepts = pool.accepts || !pool.snapshot.Endpoints[i].Draining
	}
}

func (pool *pool) usage() *use {
	if pool == nil {
		return nil
	}
	return pool.use
}

// enter counts the pick in the pool's use, and then reads the pool's configuration again. So after
// a change of the configuration, either the pick uses the new one, or the count includes the pick.
func (k *pick) enter() {
	if k.use = k.pool.use; k.use == nil {
		return
	}
	k.use.picking.Add(1)
	k.use.last.Store(max(1, int64(k.started.Sub(k.use.began))))
	if now := k.picker.pool(k.request.Pool); now != nil && now.use == k.use {
		k.pool = now
	}
}

// resume makes a request wait while its pool has no model server and Config.OnDemand starts one.
// The pick continues with the pool's newest configuration. resume ends a request with 503 if no
// server starts, and with 429 if too many requests wait. A request that another pool or cluster can
// serve also starts a server, but does not wait.
func resume(k *pick) {
	pool, on := k.pool, k.picker.config.OnDemand
	if pool.accepts || on == nil {
		return
	}
	demand, ok := on.Demand(pool.ID)
	if !ok {
		return
	}
	if len(pool.spill(k.request.Spill)) > 0 || anotherTakes(k.request) {
		ctx, cancel := context.WithCancel(k.ctx)
		cancel()
		_ = on.Resume(ctx, pool.ID) // the ended context makes Resume return at once
		return
	}
	name := quoted(pool.Name)
	if k.use.held.Add(1) > maxResuming {
		k.use.held.Add(-1)
		k.decide(immediate(429, ReasonResuming, fmt.Sprintf("%d requests wait for a model server of pool %s",
			maxResuming, name)), ReasonResuming)
		return
	}
	began := time.Now()
	err := k.awaitHeld(on, demand.Limit)
	k.refresh()
	k.started, k.resumed = time.Now(), time.Since(began)
	switch {
	case err == nil:
	case k.ctx.Err() != nil:
		k.decide(immediate(503, ReasonCanceled, "the request was canceled"), ReasonCanceled)
	case errors.Is(err, context.DeadlineExceeded):
		k.decide(immediate(503, ReasonResumeTime, fmt.Sprintf("no model server of pool %s serves after %v", name,
			demand.Limit)), ReasonResumeTime)
	default:
		k.decide(immediate(503, ReasonNotResumed, fmt.Sprintf("no model server of pool %s serves: %v", name, err)),
			ReasonNotResumed)
	}
}

// resumeAgain is how often a waiting pick calls OnDemand.Resume. A server may have ended after
// Resume reported it as serving, and before the pool had it.
const resumeAgain = time.Second

func (k *pick) awaitHeld(on OnDemand, limit time.Duration) error {
	k.use.picking.Add(-1)
	defer func() {
		k.use.picking.Add(1)
		k.use.held.Add(-1)
	}()
	return k.awaitServer(on, limit)
}

// awaitServer starts a server and waits until the pool has one. The pool gets a server only after
// all Envoys have its address.
func (k *pick) awaitServer(on OnDemand, limit time.Duration) error {
	wait := limit + answerTime
	if pool := k.pool; pool.queue.On() {
		wait += pool.queue.Limits().Wait(int(pool.priority(k.request)))
	}
	if k.pool.processor != nil {
		wait += k.pool.processor.Timeout()
	}
	k.request.Extend(wait)
	ctx, cancel := context.WithTimeout(k.ctx, limit)
	defer cancel()
	again := time.NewTicker(resumeAgain)
	defer again.Stop()
	for {
		if err := on.Resume(ctx, k.pool.ID); err != nil {
			return err
		}
		set := k.picker.pools.now.Load()
		if now := set.byName[k.pool.Name]; now == nil {
			return errors.New("it was removed")
		} else if now.accepts {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-set.replaced:
		case <-again.C:
		}
	}
}

func resumed(r *Record) string {
	if r.Resumed == 0 {
		return ""
	}
	return fmt.Sprintf("it waited %.3f s for a model server that was started for it", r.Resumed.Seconds())
}
