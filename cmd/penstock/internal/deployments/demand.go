package deployments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/penstock-project/penstock/cmd/penstock/internal/engines"
	"github.com/penstock-project/penstock/discovery/engine/deployment"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker"
)

// Requests reports the requests of pools. *picker.Picker implements it.
type Requests interface {
	Use(pool objectid.Target) picker.Use
	// ServerUse is Use for one server of a pool.
	ServerUse(pool objectid.Target, server netip.AddrPort) picker.Use
}

var _ picker.OnDemand = (*Keeper)(nil)

const (
	// defaultStartup is the time in which a server starts, as in internal/engines.
	defaultStartup = 20 * time.Minute
	// roomWait is added to it, for the end of requests of another deployment that has the room.
	roomWait = 10 * time.Minute
	// maxHeld is below the hour after which Envoy ends a silent request.
	maxHeld = 55 * time.Minute
	// turn is how long a server serves before its deployment gives room to a waiting one, although
	// it has requests.
	turn = 10 * time.Second
	// heldFailures is how often in a row a server that served may end until its requests get the
	// reason at once. The back-off before is 4 s at most.
	heldFailures = 3
	// look and lookRarely bound the interval of looks at requests: a part of the shortest idle
	// time. It is lookSoon while a deployment's last requests end, or a request waits for room.
	look       = time.Second
	lookRarely = 30 * time.Second
	lookPart   = 10
	lookSoon   = 25 * time.Millisecond
)

// demand has the requests of one deployment, and their consequences.
type demand struct {
	use     picker.Use
	known   bool      // the picker has the pool
	used    time.Time // of the last request, or the start of a server
	served  time.Time // since when a server is ready; zero without one
	waiting int       // calls of Resume
	asked   time.Time // when the first of them began
	noRoom  string    // why no server can get room
	// closing is why servers get no further requests: they stop once they have none.
	closing string
	evictor string // the deployment that gets their room; "": none
}

// stopped is the reason why a deployment has the phase Asleep, in the state file.
type stopped struct {
	Why     string `json:"why"`
	Evicted bool   `json:"evicted,omitempty"`
}

// Follow makes deployments without requests stop. Without it, none does.
func (k *Keeper) Follow(r Requests) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.requests = r
}

func targetOf(id string) objectid.Target {
	target, _ := objectid.ParseTarget(id)
	return target
}

// Demand implements picker.OnDemand. A paused deployment has one without a model, so that Resume
// returns why no server starts.
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

// runs reports whether the deployment may have servers.
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

// wake ends the sleep of a deployment. k.mu is held.
func (k *Keeper) wake(id string, e *entry) {
	_, sleeps := k.saved.Stopped[id]
	if sleeps {
		delete(k.saved.Stopped, id)
		e.used = time.Now()
	}
	if e.evictor == "" {
		e.closing = ""
	}
	k.poke()
}

// poke requests a sync.
func (k *Keeper) poke() {
	select {
	case k.dirty <- struct{}{}:
	default:
	}
}

// outcome reports whether a deployment serves, or an error if no request can be served: its phase
// is Failed, and no server starts. k.mu is held.
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
		case s.Phase == engines.Starting, s.Phase == engines.Running, restarts(s):
			return false, nil
		case s.Phase == engines.Waiting, s.Phase == engines.Failed:
			if known && err == nil { // without the last words, which are not for clients
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
func restarts(s engines.State) bool {
	return s.Phase == engines.Waiting && s.Served && s.Failures <= heldFailures
}

// accepts reports whether a server of a deployment gets requests.
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

// observe reads the requests of all deployments, and decides which ones stop. It returns whether
// something changed. k.mu is held.
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

// decide begins and ends the closing of one deployment.
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

// needs reports whether requests wait for a deployment that has no room.
func (k *Keeper) needs(id string) bool {
	e := k.entries[id]
	return e != nil && e.runs() && e.waiting > 0 && k.lacks(id, e) != ""
}

// lacks returns the name of a server that waits for room, if no server of its deployment has any.
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

// due reports whether sync has something to do without a change of files or processes.
func (k *Keeper) due(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	due := k.observe(now)
	for id, e := range k.entries {
		due = due || e.waiting > 0 && e.runs() && k.lacks(id, e) != ""
	}
	return due
}

// pause returns how long to wait until due is called again.
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

// notify lets calls of Resume look at the outcome. k.mu is held.
func (k *Keeper) notify() {
	close(k.outcomes)
	k.outcomes = make(chan struct{})
}

// makeRoom closes deployments whose accelerators a waiting request needs. The request that waits
// longest comes first. k.mu is held.
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
	freed := map[string]bool{} // processes that end, or will
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

// evict closes the victims without which there is no room.
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
