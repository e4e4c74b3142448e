package controller

import (
	"context"
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/engine/processes"
)

// Supervisor runs processes. *processes.Supervisor implements it.
type Supervisor interface {
	Want(list []processes.Process)
	States() []processes.State
	Changed() <-chan struct{}
}

const (
	// recheck is the interval at which absent programs and taken ports are looked up again.
	recheck = 30 * time.Second
	// recheckAll is after how many rechecks devices and programs are looked up, even if all servers
	// run. Each list may load a driver.
	recheckAll = 20
)

// Start begins to supervise. Servers that run are in the store when it returns.
func (k *Keeper) Start(s Supervisor) error {
	k.mu.Lock()
	k.supervised, k.unavailable = true, ""
	k.mu.Unlock()
	return k.sync(s)
}

// Needed returns a channel that closes once there is a deployment.
func (k *Keeper) Needed() <-chan struct{} { return k.needed }

// Unavailable reports that servers cannot be started.
func (k *Keeper) Unavailable(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unavailable = err.Error()
	k.report()
}

// Run follows deployments and processes until ctx ends. Call Start before. Processes outlive Run.
func (k *Keeper) Run(ctx context.Context, s Supervisor) error {
	again := time.NewTicker(recheck)
	defer again.Stop()
	ctx, cancel := context.WithCancel(ctx)
	var lists sync.WaitGroup
	lists.Go(func() { k.list(ctx) })
	lists.Go(func() { k.download(ctx) })
	lists.Go(func() { k.read(ctx) })
	defer lists.Wait()
	defer cancel()
	requests := time.NewTimer(look)
	defer requests.Stop()
	for checks := 0; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.Changed():
		case <-k.dirty:
		case <-again.C:
			checks++
			if !k.again(checks) {
				continue
			}
		case now := <-requests.C:
			if !k.due(now) {
				requests.Reset(k.pause())
				continue
			}
		}
		if err := k.sync(s); err != nil {
			return err
		}
		requests.Reset(k.pause())
	}
}

// sync updates the store before it stops servers, so that these servers get no further picks.
func (k *Keeper) sync(s Supervisor) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.states = map[string]processes.State{}
	for _, state := range s.States() {
		k.states[state.Name] = state
		k.proven[state.Name] = k.proven[state.Name] || k.serves(state.Name)
	}
	now := time.Now()
	k.observe(now)
	before := k.applied
	wanted := k.processes()
	k.makeRoom(now)
	for name, old := range before {
		state := k.states[name]
		p, kept := k.applied[name]
		if !kept || old.Hash() != p.Hash() && !p.Keep && state.Hash != p.Hash() {
			state.Phase = processes.Stopping
			k.states[name] = state
		}
	}
	_, err := k.commit(nil)
	k.report()
	k.save()
	s.Want(wanted)
	k.notify()
	return err
}
