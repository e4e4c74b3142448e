package controller

import (
	"cmp"
	"hash/fnv"
	"maps"
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-project/penstock/discovery/credential"
	"github.com/penstock-project/penstock/discovery/engine/deployment"
	"github.com/penstock-project/penstock/discovery/engine/processes"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

const host = "127.0.0.1"

// Ports of servers are below the ephemeral ports of Linux, which other processes get at random.
const (
	firstPort = 20000
	lastPort  = 31999
)

// ProcessName returns the name of a replica's process. id is the deployment's primary key.
func ProcessName(id string, replica int) string { return id + "/" + strconv.Itoa(replica) }

func deploymentOf(name string) string {
	return path.Dir(name)
}

func (k *Keeper) processes() (out []processes.Process) {
	var kept []processes.Process
	wanted := map[string]bool{}
	programs, live := k.programs(), k.numbers()
	ids := slices.Sorted(maps.Keys(k.entries))
	for _, id := range ids {
		e := k.entries[id]
		e.env = k.environment(e.plan)
		if _, sleeps := k.saved.Stopped[id]; sleeps || e.plan == nil || e.conflict != nil {
			e.rollout, e.model, e.memory = rollout{}, modelState{}, memoryState{}
			if !sleeps && e.kept && e.plan.Replicas > 0 {
				kept = append(kept, k.goOn(id, e, live[id])...)
			}
			continue
		}
		e.model = k.model(id, e)
		e.memory = k.memory(e)
		k.adapters(id, e)
		k.choose(id, e, programs[id], live[id])
	}
	k.allocate()
	for _, id := range ids {
		e := k.entries[id]
		k.settle(id, e)
		for _, n := range e.instances {
			name := ProcessName(id, n)
			wanted[name] = true
			port := k.port(name)
			if p, ok := k.want(e, name, n, port, programs[id]); ok {
				out = append(out, p)
			}
		}
	}
	for _, p := range kept {
		wanted[p.Name] = true
	}
	out = append(out, kept...)
	k.dropDownloads()
	k.dropSizes()
	for name := range k.saved.Ports {
		_, sleeps := k.saved.Stopped[deploymentOf(name)]
		if !wanted[name] && !sleeps && k.states[name].PID == 0 {
			delete(k.saved.Ports, name)
		}
	}
	maps.DeleteFunc(k.saved.Served, func(name, _ string) bool { return !wanted[name] && k.states[name].PID == 0 })
	k.applied = map[string]processes.Process{}
	for _, p := range out {
		k.applied[p.Name] = p
	}
	maps.DeleteFunc(k.versions, func(name string, _ string) bool { return !wanted[name] })
	maps.DeleteFunc(k.proven, func(name string, _ bool) bool { return !wanted[name] })
	return out
}

// goOn returns the live processes, unchanged, of a deployment that conflicts with a user's object.
func (k *Keeper) goOn(id string, e *entry, live []int) (out []processes.Process) {
	for _, n := range live {
		name := ProcessName(id, n)
		p, known := k.applied[name]
		if !known { // an earlier process has started it
			p = k.process(e, n, deployment.Server{Host: host, Port: k.saved.Ports[name]}, "")
			p.Keep = true
		}
		out = append(out, p)
	}
	return out
}

// want returns the process of an instance; ok is false if it must not run.
func (k *Keeper) want(e *entry, name string, n int, port uint16, program string) (p processes.Process, ok bool) {
	before, known := k.applied[name]
	a, runs := k.assigned[name], k.states[name].PID != 0
	s := deployment.Server{Replica: n, Host: host, Port: port, Devices: a.devices}
	switch {
	case !e.old[n] && !e.blocked() && a.waits == "":
		if !runs {
			delete(k.proven, name)
		}
		k.versions[name], k.saved.Served[name] = e.version, e.plan.ServedName
		return k.process(e, n, s, program), true
	case !e.old[n] && !runs && (e.missing != "" || e.env.waits != "" || a.waits != "" || !known):
		return p, false
	case known:
		return before, true
	}
	// The process continues, although its version is unknown or its program is gone.
	p = k.process(e, n, s, program)
	p.Keep = true
	return p, true
}

func (k *Keeper) process(e *entry, n int, s deployment.Server, program string) processes.Process {
	s.Replica, s.Model, s.Adapters, s.Secrets = n, e.model.path, e.adapters, e.env.values
	c, err := e.plan.Command(s)
	if err != nil { // deployment.New has checked the template
		e.missing = err.Error()
	}
	name := ProcessName(e.plan.ID(), n)
	t := e.plan.Process
	address := net.JoinHostPort(host, strconv.Itoa(int(s.Port)))
	p := processes.Process{Name: name, Command: append([]string{program}, c.Args...), Inherited: k.inherited(program),
		Ready: "http://" + address + cmp.Or(t.Ready, "/health"), AnyListener: t.Listener == v1alpha1.ListenerAny,
		StartupTimeout: time.Duration(t.StartupTimeoutSeconds) * time.Second,
		StopGrace:      time.Duration(t.StopGraceSeconds) * time.Second, Secrets: e.env.secretsOf()}
	for i, arg := range c.Args[:max(0, len(c.Args)-1)] {
		name, ok := strings.CutPrefix(arg, "--")
		if value := c.Args[i+1]; ok && credential.Value(name, value) != value {
			p.Secrets = append(p.Secrets, value)
		}
	}
	for _, env := range c.Env {
		p.Env = append(p.Env, env.Name+"="+env.Value)
		if credential.Value(env.Name, env.Value) != env.Value {
			p.Secrets = append(p.Secrets, env.Value)
		}
	}
	return p
}

// port returns the saved port of a process, or a free one. The search starts at a hash of the name.
func (k *Keeper) port(name string) uint16 {
	port, known := k.saved.Ports[name]
	if known && (k.states[name].PID != 0 || free(port)) {
		return port
	}
	taken := map[uint16]bool{}
	for _, p := range k.saved.Ports {
		taken[p] = true
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(k.cfg.StateFile + " " + name))
	const ports = lastPort - firstPort + 1
	for i := range uint32(ports) {
		p := uint16(firstPort + (h.Sum32()%ports+i)%ports)
		if !taken[p] && free(p) {
			k.saved.Ports[name] = p
			return p
		}
	}
	return port
}

func free(port uint16) bool {
	l, err := net.Listen("tcp", netip.AddrPortFrom(loopback, port).String())
	return err == nil && l.Close() == nil
}

func (k *Keeper) servers(id string, e *entry) (out []deployment.Server) {
	for _, n := range e.instances {
		name := ProcessName(id, n)
		if _, retires := e.retiring[n]; k.states[name].Phase == processes.Running {
			out = append(out, deployment.Server{Replica: n, Host: host, Port: k.saved.Ports[name],
				Draining: retires || e.closing != "" || k.renamed(e, name)})
		}
	}
	return out
}

// Inherited returns the environment variables that engines get from this process.
func Inherited(environ []string) (out []string) {
	for _, v := range environ {
		name, _, ok := strings.Cut(v, "=")
		if ok && name != "" && !strings.HasPrefix(name, "PENSTOCK_") && name != "NOTIFY_SOCKET" &&
			!strings.HasPrefix(name, "LISTEN_") {
			out = append(out, v)
		}
	}
	return out
}
