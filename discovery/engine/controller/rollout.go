package controller

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-project/penstock/discovery/engine/deployment"
	"github.com/penstock-project/penstock/discovery/engine/devices"
	"github.com/penstock-project/penstock/discovery/engine/processes"
)

// A deployment has numbered instances, which are processes, from number 0. A change starts an
// instance of the new version with the lowest free number, beside the old ones if there is room.

// retireGrace is how long a server stays after its last possible pick. Gateways report retries
// within 2 s.
const retireGrace = 2500 * time.Millisecond

type rollout struct {
	version   string          // the hash of the command without port and accelerators
	instances []int           // numbers of the wanted instances
	old       map[int]bool    // instances of another version
	changing  bool            // true until all old instances have ended and all new ones are ready
	surge     int             // number of an instance that starts only if it has room; -1: none
	retiring  map[int]retiree // instances that get no further requests, and end after their requests
	spare     string          // why the change waits
}

type retiree struct {
	quiet time.Time // when its last pick was possible; zero while picks are possible
	done  bool      // the instance ends
}

// numbers lists the instances of all deployments that run, or were wanted.
func (k *Keeper) numbers() map[string][]int {
	out := map[string][]int{}
	add := func(name string) {
		id := deploymentOf(name)
		n, err := strconv.Atoi(strings.TrimPrefix(name, id+"/"))
		if err == nil && !slices.Contains(out[id], n) {
			out[id] = append(out[id], n)
		}
	}
	for name, s := range k.states {
		if s.PID != 0 {
			add(name)
		}
	}
	for name := range k.applied {
		add(name)
	}
	for _, list := range out {
		slices.Sort(list)
	}
	return out
}

// choose decides which instances a deployment has. settle removes a surge instance without room.
func (k *Keeper) choose(id string, e *entry, program string, live []int) {
	r := &e.rollout
	r.old, r.surge, r.spare = map[int]bool{}, -1, ""
	r.version = k.process(e, 0, deployment.Server{Host: host}, program).Hash()
	maps.DeleteFunc(r.retiring, func(n int, _ retiree) bool { return !slices.Contains(live, n) })
	var olds, news, ending, renamed []int
	for _, n := range live {
		name := ProcessName(id, n)
		switch t, retires := r.retiring[n]; {
		case retires && t.done && k.states[name].PID == 0:
			delete(r.retiring, n)
		case retires && t.done:
			ending = append(ending, n)
		case k.current(e, name, n, program):
			news = append(news, n)
		case k.proven[name] && k.renamed(e, name):
			r.old[n], renamed = true, append(renamed, n)
			r.retire(n)
		case k.proven[name]:
			r.old[n], olds = true, append(olds, n)
		default:
			ending = append(ending, n) // the instance never served
		}
	}
	unready := func(n int) bool { return !k.serves(ProcessName(id, n)) }
	r.changing = len(olds)+len(renamed)+len(ending) > 0 || r.changing && slices.ContainsFunc(news, unready)
	r.instances = slices.Concat(olds, renamed, news)
	k.replace(id, e, olds, news, func() int {
		for n := 0; ; n++ {
			if !slices.Contains(r.instances, n) && !slices.Contains(ending, n) {
				r.instances = append(r.instances, n)
				return n
			}
		}
	})
	slices.Sort(r.instances)
}

// renamed reports whether a server was started with another model name. It rejects the new name,
// which the route has at once, so it gets no requests and ends before its replacement starts.
func (k *Keeper) renamed(e *entry, name string) bool {
	served := k.saved.Served[name]
	return served != "" && served != e.plan.ServedName
}

func (k *Keeper) serves(name string) bool {
	s := k.states[name]
	return s.Phase == processes.Running && s.PID != 0
}

// current reports whether an instance has the newest version, or may get it at once.
func (k *Keeper) current(e *entry, name string, n int, program string) bool {
	version, known := k.versions[name]
	if e.blocked() {
		return true
	}
	if k.states[name].PID == 0 {
		return !known || !k.proven[name] || version == e.version
	}
	q := e.request(name)
	if h, has := k.saved.Devices[name]; has != q.Reserves() || has && !h.satisfies(q) {
		return false
	}
	if known {
		return version == e.version
	}
	// An earlier penstock process has started the instance.
	s := deployment.Server{Replica: n, Host: host, Port: k.saved.Ports[name], Devices: k.saved.Devices[name].Devices}
	if k.process(e, n, s, program).Hash() != k.states[name].Hash {
		return false
	}
	k.versions[name] = e.version
	return true
}

func (e *entry) request(name string) devices.Request {
	q := devices.Request{Name: name, Share: e.plan.Share, Accelerator: e.plan.Accelerator, Memory: e.memory.device,
		Host: e.plan.Host}
	if e.plan.Spread {
		q.Apart = deploymentOf(name) + "/"
	}
	return q
}

// replace is one step of a change. next adds an instance of the new version and returns its number.
func (k *Keeper) replace(id string, e *entry, olds, news []int, next func() int) {
	r, replicas := &e.rollout, e.plan.Replicas
	staying := func(list []int) (out []int) {
		for _, n := range list {
			if _, retires := r.retiring[n]; !retires {
				out = append(out, n)
			}
		}
		return out
	}
	ready := func(n int) bool { return k.serves(ProcessName(id, n)) }
	for _, n := range news { // instances of a change that was undone
		if len(staying(news)) < replicas {
			delete(r.retiring, n)
		}
	}
	for len(staying(news)) > replicas {
		r.retire(leastUseful(staying(news), ready))
	}
	left, fresh := staying(olds), staying(news)
	switch total := len(left) + len(fresh); {
	case len(olds) > 0 && (e.plan.Recreate || replicas == 0):
		for _, n := range left {
			r.retire(n)
		}
	case len(left) < len(olds): // wait until an old instance has ended
	case total < replicas:
		for ; total < replicas; total++ {
			next()
		}
	case len(olds) == 0 || slices.ContainsFunc(fresh, func(n int) bool { return !ready(n) }):
	case total > replicas || len(fresh) == replicas:
		r.retire(leastUseful(left, ready))
	default:
		r.surge = next()
	}
}

// leastUseful prefers an instance that is not ready, then the highest number.
func leastUseful(numbers []int, ready func(int) bool) int {
	for _, n := range numbers {
		if !ready(n) {
			return n
		}
	}
	return numbers[len(numbers)-1]
}

func (r *rollout) retire(n int) {
	if r.retiring == nil {
		r.retiring = map[int]retiree{}
	}
	if _, retires := r.retiring[n]; !retires {
		r.retiring[n] = retiree{}
	}
}

// settle drops a surge instance without room. One of several old instances then ends first.
func (k *Keeper) settle(id string, e *entry) {
	r := &e.rollout
	if r.surge < 0 {
		return
	}
	a := k.assigned[ProcessName(id, r.surge)]
	if a.waits == "" {
		return
	}
	r.instances = slices.DeleteFunc(r.instances, func(n int) bool { return n == r.surge })
	switch r.surge = -1; {
	case !a.room && a.finding == nil: // devices are not listed yet
	case !a.room || e.plan.Replicas == 1:
		r.spare = a.waits
	default:
		var olds []int
		for n := range r.old {
			if _, retires := r.retiring[n]; !retires {
				olds = append(olds, n)
			}
		}
		if slices.Sort(olds); len(olds) > 0 {
			r.retire(olds[0])
		}
	}
}

// retired checks the requests of the retiring servers. It returns whether one of them ends now.
func (k *Keeper) retired(id string, e *entry, now time.Time) (changed bool) {
	for n, t := range e.retiring {
		if t.done {
			continue
		}
		name := ProcessName(id, n)
		switch {
		case k.requests == nil || k.states[name].Phase != processes.Running:
			t.done = true
		default:
			u := k.requests.ServerUse(targetOf(id), netip.AddrPortFrom(loopback, k.saved.Ports[name]))
			switch {
			case u.Accepts:
				t.quiet = time.Time{}
			case t.quiet.IsZero():
				t.quiet = now
			default:
				t.done = u.Active == 0 && now.Sub(t.quiet) >= retireGrace
			}
		}
		changed = changed || t.done
		e.retiring[n] = t
	}
	return changed
}

var loopback = netip.MustParseAddr(host)
