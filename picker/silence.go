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

// Every judgeEvery, the picker checks the servers with waiting requests. A server that sends
// nothing for too long is silent. The picker requests one token from a silent server at once, and
// again 1, 2, 4, ... 30 s after each failed probe. A probe waits up to probeTime, because a server
// that recovers answers open requests.
const (
	judgeEvery            = 100 * time.Millisecond
	probeTime             = 10 * time.Second
	firstProbe, lastProbe = time.Second, 30 * time.Second
	maxProbes             = 16
)

type probing struct {
	mu      sync.Mutex
	servers map[*endpoint.Load]*probed
	open    int
}

type probed struct {
	open   bool
	failed int
	next   time.Time
}

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

func (a *probing) due(silent []*endpoint.Load, now time.Time) (due []*endpoint.Load) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for server, state := range a.servers {
		if !state.open && !slices.Contains(silent, server) {
			delete(a.servers, server)
		}
	}
	for _, server := range silent {
		state := a.servers[server]
		if state == nil {
			state = &probed{}
			a.servers[server] = state
		}
		if !state.open && !now.Before(state.next) && a.open < maxProbes {
			state.open = true
			a.open++
			due = append(due, server)
		}
	}
	return due
}

func (a *probing) ended(server *endpoint.Load, ok bool, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	state := a.servers[server]
	a.open--
	if state.open = false; ok {
		state.failed = 0
		return
	}
	state.next = now.Add(min(firstProbe<<min(state.failed, 10), lastProbe))
	state.failed++
}

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

// probedAs returns the protocol and the model for a probe of a server. The server's first pool by
// name determines the protocol. The model is from a waiting request or, if the server's list of
// models lacks it, the first of the list.
func (p *Picker) probedAs(server *endpoint.Load) (by upstream.Protocol, model string) {
	var first *pool
	for _, pool := range p.pools.now.Load().byName {
		if pool.snapshot.Find(server.Addr()) == server && (first == nil || pool.Name < first.Name) {
			first = pool
		}
	}
	model = server.Model()
	if first == nil {
		return by, model
	}
	if list := first.holders.List(server.Addr()); len(list) > 0 && !slices.Contains(list, model) {
		model = list[0]
	}
	return first.Metrics.Protocol, model
}
