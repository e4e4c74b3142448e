package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/penstock-project/penstock/discovery/engine/deployment"
	"github.com/penstock-project/penstock/discovery/engine/processes"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker"
)

// Requests counts the requests of pools. *picker.Picker implements it.
type Requests interface {
	Use(pool objectid.Target) picker.Use
	ServerUse(pool objectid.Target, server netip.AddrPort) picker.Use
}

var _ picker.OnDemand = (*Keeper)(nil)

const (
	// defaultStartup limits the start of a server, as in discovery/engine/processes.
	defaultStartup = 20 * time.Minute
	// roomWait is added to the startup time, because another deployment may have to drain first.
	roomWait = 10 * time.Minute
	// maxHeld is below the hour after which Envoy ends a silent request.
	maxHeld = 55 * time.Minute
	// turn is how long a busy deployment serves before it gives its room to a waiting deployment.
	turn = 10 * time.Second
	// While a server that has served fails at most heldFailures times in a row, requests wait for
	// its restart. Its back-off is then at most 4 s. After more failures, requests fail at once.
	heldFailures = 3
	// Requests are counted lookPart times per shortest idle time, within look and lookRarely, or
	// each lookSoon while a deployment drains or a request waits for room.
	look       = time.Second
	lookRarely = 30 * time.Second
	lookPart   = 10
	lookSoon   = 25 * time.Millisecond
)

type demand struct {
	use     picker.Use
	known   bool      // the picker has the pool
	used    time.Time // time of the last request, or of a server's start
	served  time.Time // since when a server is ready; zero: no server is
	waiting int       // number of calls in Resume
	asked   time.Time // start of the first waiting call
	noRoom  string    // why no server can get room
	// closing is why the servers drain, and then stop; "": they do not drain.
	closing string
	evictor string // the deployment that gets the room of the drained servers; "": none
}

type stopped struct {
	Why     string `json:"why"`
	Evicted bool   `json:"evicted,omitempty"`
}

// Follow sets the source of requests. Before, no deployment stops for idleness.
func (k *Keeper) Follow(r Requests) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.requests = r
}

func targetOf(id string) objectid.Target {
	target, _ := objectid.ParseTarget(id)
	return target
}

// Demand implements picker.OnDemand. For a paused deployment it has no model, so that Resume
// returns an error.
func (k *Keeper) Demand(pool objectid.Target) (d picker.Demand, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.entries[pool.String()]
	if e == nil || e.plan == nil || e.conflict != nil || !k.supervised || k.unavailable != "" {
		return d, false
	}
	if !e.runs() {
		return picker.Demand{Limit: defaultStartup}, true
	}
	limit := time.Duration(e.plan.Process.StartupTimeoutSeconds) * time.Second
	if limit <= 0 {
		limit = defaultStartup
	}
	return picker.Demand{Model: e.plan.ServedName, Limit: min(limit+roomWait, maxHeld)}, true
}

func (e *entry) runs() bool { return e.plan != nil && e.conflict == nil && e.plan.Replicas > 0 }

// Resume implements picker.OnDemand.
func (k *Keeper) Resume(ctx context.Context, pool objectid.Target) error {
	id := pool.String()
	k.mu.Lock()
	if e := k.entries[id]; e != nil {
		if e.waiting++; e.waiting == 1 {
			e.asked = time.Now()
		}
		defer k.leave(e)
		k.wake(id, e)
	}
	k.mu.Unlock()
	for {
		k.mu.Lock()
		done, err := k.outcome(id)
		changed := k.outcomes
		k.mu.Unlock()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

func (k *Keeper) leave(e *entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e.waiting--
}

// wake ends the phase Asleep. k.mu is held.
func (k *Keeper) wake(id string, e *entry) {
	_, sleeps := k.saved.Stopped[id]
	if sleeps {
		delete(k.saved.Stopped, id)
		e.used = time.Now()
	}
	if e.evictor == "" {
		e.closing = ""
	}
	signal(k.dirty)
}

// signal sends to a channel with room for one, unless a signal is already waiting.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// outcome reports whether a deployment serves. It returns an error if no server can start. k.mu is
// held.
func (k *Keeper) outcome(id string) (serves bool, err error) {
	e := k.entries[id]
	if e == nil {
		return false, errors.New("it is not deployed any more")
	}
	phase, message, _ := k.phase(id, e)
	switch {
	case !e.runs():
		return false, errors.New(message)
	case e.closing != "":
		return false, nil
	case k.accepts(id, e):
		return true, nil
	case e.env.waits != "":
		return false, errors.New(e.env.waits)
	case e.noRoom != "":
		return false, errors.New(e.noRoom)
	}
	for _, name := range k.names(id, e) {
		s, known := k.states[name]
		switch {
		case s.Phase == processes.Starting, s.Phase == processes.Running, restarts(s):
			return false, nil
		case s.Phase == processes.Waiting, s.Phase == processes.Failed:
			if known && err == nil { // omits the end of the log, which clients must not see
				err = fmt.Errorf("%s; see penstock status", cmp.Or(s.Reason, notRunning))
			}
		}
	}
	if phase == failedReason && err == nil {
		err = errors.New(message)
	}
	return false, err
}

// restarts reports whether a server that served starts again soon, so that requests wait for it.
func restarts(s processes.State) bool {
	return s.Phase == processes.Waiting && s.Served && s.Failures <= heldFailures
}

func (k *Keeper) accepts(id string, e *entry) bool {
	return slices.ContainsFunc(k.servers(id, e), func(s deployment.Server) bool { return !s.Draining })
}

// names lists the processes of a deployment that do not retire.
func (k *Keeper) names(id string, e *entry) (out []string) {
	for _, n := range e.instances {
		if _, retires := e.retiring[n]; !retires {
			out = append(out, ProcessName(id, n))
		}
	}
	return out
}

// observe counts requests, and decides which deployments stop. It reports changes. k.mu is held.
func (k *Keeper) observe(now time.Time) (changed bool) {
	for id, e := range k.entries {
		changed = k.retired(id, e, now) || changed
		if !e.runs() {
			e.demand = demand{waiting: e.waiting, asked: e.asked}
			continue
		}
		if k.requests != nil {
			e.use = k.requests.Use(targetOf(id))
		}
		e.known = e.use.Known
		switch ready := slices.ContainsFunc(k.names(id, e), k.serves); {
		case !ready:
			e.served = time.Time{}
		case e.served.IsZero():
			e.served, e.used = now, now
		}
		if e.used.IsZero() || e.busy() {
			e.used = now
		}
		if e.use.Last.After(e.used) {
			e.used = e.use.Last
		}
		changed = k.decide(id, e, now) || changed
	}
	return changed
}

// busy reports whether a deployment has requests, or may have some that are not counted.
func (e *entry) busy() bool { return !e.known || e.use.Active > 0 || e.use.Held > 0 || e.waiting > 0 }

func (k *Keeper) decide(id string, e *entry, now time.Time) bool {
	s, sleeps := k.saved.Stopped[id]
	idle := e.plan.Idle
	switch {
	case sleeps && e.waiting == 0 && (idle > 0 || s.Evicted):
		return false
	case sleeps: // a request may have come while the last ones ended
		delete(k.saved.Stopped, id)
		e.used = now
		return true
	case e.closing == "" && idle > 0 && !e.served.IsZero() && !e.busy() && now.Sub(e.used) >= idle:
		e.closing = fmt.Sprintf("no requests for %v", idle)
		return true
	case e.closing == "":
		return false
	case !e.known || e.evictor == "" && (e.busy() || idle <= 0) || e.evictor != "" && !k.needs(e.evictor):
		e.closing, e.evictor = "", ""
		return true
	case !e.use.Accepts && e.use.Active == 0:
		k.saved.Stopped[id] = stopped{Why: e.closing, Evicted: e.evictor != ""}
		e.closing, e.evictor = "", ""
		return true
	}
	return false
}

func (k *Keeper) needs(id string) bool {
	e := k.entries[id]
	return e != nil && e.runs() && e.waiting > 0 && k.lacks(id, e) != ""
}

// lacks returns a process that waits for room; "": none waits, or another process has room.
func (k *Keeper) lacks(id string, e *entry) (name string) {
	for _, n := range k.names(id, e) {
		switch a := k.assigned[n]; {
		case a.room:
			if name == "" {
				name = n
			}
		case a.waits == "":
			return ""
		}
	}
	return name
}

func (k *Keeper) due(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	due := k.observe(now)
	for id, e := range k.entries {
		due = due || e.waiting > 0 && e.runs() && k.lacks(id, e) != ""
	}
	return due
}

func (k *Keeper) pause() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := lookRarely
	for id, e := range k.entries {
		if e.closing != "" || len(e.retiring) > 0 || e.waiting > 0 && e.runs() && k.lacks(id, e) != "" {
			return lookSoon
		}
		if e.runs() && e.plan.Idle > 0 {
			next = min(next, max(look, e.plan.Idle/lookPart))
		}
	}
	return next
}

// notify makes waiting calls of Resume read the outcome again. k.mu is held.
func (k *Keeper) notify() {
	close(k.outcomes)
	k.outcomes = make(chan struct{})
}

// makeRoom drains deployments for waiting requests, the longest waiting first. k.mu is held.
func (k *Keeper) makeRoom(now time.Time) {
	var ids []string
	for id, e := range k.entries {
		if e.noRoom = ""; e.waiting > 0 && e.runs() && k.lacks(id, e) != "" {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return k.entries[a].asked.Compare(k.entries[b].asked) })
	for _, id := range ids {
		k.makeRoomFor(id, now)
	}
}

func (k *Keeper) makeRoomFor(id string, now time.Time) {
	e := k.entries[id]
	name := k.lacks(id, e)
	freed := map[string]bool{} // processes that end or will end
	for holder := range k.saved.Devices {
		if _, wanted := k.applied[holder]; !wanted {
			freed[holder] = true
		}
	}
	var idle, turns, others []string
	for other, o := range k.entries {
		switch {
		case other == id || !k.holds(other):
		case o.closing != "":
			k.free(freed, other)
		case o.plan == nil || o.plan.Keep || !o.known:
		case !o.busy():
			idle = append(idle, other)
		case o.use.Held == 0 && o.waiting == 0 && !o.served.IsZero() && now.Sub(o.served) >= turn &&
			now.Sub(e.asked) >= turn:
			turns = append(turns, other)
		default:
			others = append(others, other)
		}
	}
	if k.fits(name, freed) {
		return
	}
	oldest := func(a, b string) int { return k.entries[a].used.Compare(k.entries[b].used) }
	longest := func(a, b string) int { return k.entries[a].served.Compare(k.entries[b].served) }
	slices.SortFunc(idle, oldest)
	slices.SortFunc(turns, longest)
	var victims []string
	for _, other := range slices.Concat(idle, turns) {
		k.free(freed, other)
		if victims = append(victims, other); k.fits(name, freed) {
			k.evict(id, name, freed, victims)
			return
		}
	}
	for _, other := range others {
		k.free(freed, other)
	}
	if !k.fits(name, freed) {
		e.noRoom = k.assigned[name].waits
	}
}

func (k *Keeper) evict(id, name string, freed map[string]bool, victims []string) {
	for _, other := range slices.Backward(victims) {
		without := map[string]bool{}
		for holder := range freed {
			without[holder] = deploymentOf(holder) != other
		}
		if k.fits(name, without) {
			freed = without
			continue
		}
		k.entries[other].closing = "ModelDeployment " + id + " needs its room"
		k.entries[other].evictor = id
	}
}
