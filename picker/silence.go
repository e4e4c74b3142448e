package picker

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/onetoken"
	"github.com/penstock-project/penstock/picker/upstream"
)

// Servers whose requests wait are judged every judgeEvery. A silent one is probed at once, and
// after each probe without a token in 1, 2, 4, ... 30 s: one probe at a time for each server, and
// maxProbes in all. A probe has probeTime: a server that goes on answers one that is open.
const (
	judgeEvery            = 100 * time.Millisecond
	probeTime             = 10 * time.Second
	firstProbe, lastProbe = time.Second, 30 * time.Second
	maxProbes             = 16
)

// probing are the probes of silent servers.
type probing struct {
	mu      sync.Mutex
	servers map[*endpoint.Load]*probed
	open    int
}

// probed is a server that is or was probed in this silence.
type probed struct {
	open   bool
	failed int
	next   time.Time
}

// watchSilence finds and probes silent servers until ctx ends. It sleeps while no request waits
// long.
func (p *Picker) watchSilence(ctx context.Context) error {
	var probes sync.WaitGroup
	defer probes.Wait()
	all := &probing{servers: map[*endpoint.Load]*probed{}}
	timer := time.NewTimer(judgeEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.registry.Waiting():
		}
		for more := true; more; {
			var silent []*endpoint.Load
			silent, more = p.registry.Silent(time.Now())
			for _, server := range all.due(silent, time.Now()) {
				probes.Go(func() { p.probe(ctx, server, all) })
			}
			timer.Reset(judgeEvery)
			select {
			case <-ctx.Done():
				return nil
			case <-timer.C:
			}
		}
	}
}

// due returns the silent servers that are to be probed now, and forgets those that serve.
func (a *probing) due(silent []*endpoint.Load, now time.Time) (due []*endpoint.Load) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for server, is := range a.servers {
		if !is.open && !slices.Contains(silent, server) {
			delete(a.servers, server)
		}
	}
	for _, server := range silent {
		is := a.servers[server]
		if is == nil {
			is = &probed{}
			a.servers[server] = is
		}
		if !is.open && !now.Before(is.next) && a.open < maxProbes {
			is.open = true
			a.open++
			due = append(due, server)
		}
	}
	return due
}

// ended records a probe's end.
func (a *probing) ended(server *endpoint.Load, ok bool, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	is := a.servers[server]
	a.open--
	if is.open = false; ok {
		is.failed = 0
		return
	}
	is.next = now.Add(min(firstProbe<<min(is.failed, 10), lastProbe))
	is.failed++
}

// probe asks a silent server for a token.
func (p *Picker) probe(ctx context.Context, server *endpoint.Load, all *probing) {
	sent, err := time.Now(), errors.New("the probe has panicked")
	defer func() {
		if v := recover(); v != nil {
			p.config.Troubles.Panicked("probe of "+server.Addr().String(), v, debug.Stack())
		}
		now := time.Now()
		switch all.ended(server, err == nil, now); {
		case err == nil:
			server.Answers(sent, now)
		case ctx.Err() == nil:
			server.Probed(err.Error(), errors.Is(err, onetoken.ErrDenied), now)
		}
	}()
	err = p.askForToken(ctx, server)
}

// askForToken asks a server for a token.
func (p *Picker) askForToken(ctx context.Context, server *endpoint.Load) error {
	addr := server.Addr()
	if kind := p.config.Addresses.Never(addr.Addr()); kind != "" {
		return errors.Join(onetoken.ErrDenied, errors.New(kind+" is never called"))
	}
	by, model := p.probedAs(server)
	limited, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	err := onetoken.Ask(limited, by.Transport(0), by.URL(addr), model)
	if err != nil && limited.Err() != nil {
		return errors.New("no token within " + probeTime.String())
	}
	return err
}

// probedAs returns how a server is called, by the first of its pools, and the model that it is
// asked for: the one that a request waits for, if the server's list does not lack it; "" if none is
// known.
func (p *Picker) probedAs(server *endpoint.Load) (by upstream.Protocol, model string) {
	var of *pool
	for _, pool := range p.pools.now.Load().byName {
		if pool.snapshot.Find(server.Addr()) == server && (of == nil || pool.Name < of.Name) {
			of = pool
		}
	}
	model = server.Model()
	if of == nil {
		return by, model
	}
	if list := of.holders.List(server.Addr()); len(list) > 0 && !slices.Contains(list, model) {
		model = list[0]
	}
	return of.Metrics.Protocol, model
}
