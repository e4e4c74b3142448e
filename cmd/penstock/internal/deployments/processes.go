package deployments

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-project/penstock/cmd/penstock/internal/engines"
	"github.com/penstock-project/penstock/discovery/credential"
	"github.com/penstock-project/penstock/discovery/engine/deployment"
	"github.com/penstock-project/penstock/xds/xdstest/freeport"
)

// host is the address of all servers.
const host = "127.0.0.1"

// Ports of servers are below the ephemeral ports of Linux, which other processes get at random.
const (
	firstPort = 20000
	lastPort  = 31999
)

// ProcessName returns the name of a replica's process. id is the deployment's primary key.
func ProcessName(id string, replica int) string { return id + "/" + strconv.Itoa(replica) }

// processes returns the wanted processes of all deployments.
func (k *Keeper) processes() (out []engines.Process) {
	wanted := map[string]bool{}
	programs := k.programs()
	k.allocate()
	for _, id := range slices.Sorted(maps.Keys(k.entries)) {
		e := k.entries[id]
		if e.plan == nil || e.conflict != nil {
			e.ports = nil
			continue
		}
		e.ports = make([]uint16, e.plan.Replicas)
		var processes []engines.Process
		for replica := range e.plan.Replicas {
			name := ProcessName(id, replica)
			wanted[name] = true
			e.ports[replica] = k.port(name)
			a := k.assigned[name]
			p, applied := k.applied[name]
			if e.missing == "" && a.waits == "" && !a.moves {
				processes = append(processes, k.process(e, replica, name, programs[id]))
			} else if applied && (a.waits == "" || k.states[name].PID != 0) {
				// It goes on, although its program is gone or its new version has no room.
				processes = append(processes, p)
			}
		}
		if !wanted[e.moving] || k.states[e.moving].Phase == engines.Running {
			e.moving = ""
		}
		out = append(out, k.staged(e, processes)...)
	}
	maps.DeleteFunc(k.saved.Ports, func(name string, _ uint16) bool { return !wanted[name] })
	k.applied = map[string]engines.Process{}
	for _, p := range out {
		k.applied[p.Name] = p
	}
	return out
}

// programs returns the programs by deployment.
func (k *Keeper) programs() map[string]string {
	out := map[string]string{}
	for id, e := range k.entries {
		if e.missing = ""; e.plan == nil || e.conflict != nil {
			continue
		}
		program, err := k.program(e.plan.Process.Program)
		if err != nil {
			e.missing = err.Error()
			if e.plan.Process.Install != "" {
				e.missing += "; install it with: " + e.plan.Process.Install
			}
		}
		out[id] = program
	}
	return out
}

// staged lets at most one running process of a deployment change, and none while another one of
// them is not ready. A process that needs other accelerators is left out, so that it ends first.
func (k *Keeper) staged(e *entry, processes []engines.Process) []engines.Process {
	runs := func(p engines.Process) bool {
		return k.states[p.Name].Phase == engines.Running && k.states[p.Name].PID != 0
	}
	ended := map[string]bool{}
	free := e.moving == ""
	for _, p := range processes {
		if _, known := k.applied[p.Name]; known && !runs(p) {
			free = false
		}
	}
	for i, p := range processes {
		before, known := k.applied[p.Name]
		moves := k.assigned[p.Name].moves
		if !known || !moves && (!runs(p) || before.Hash() == p.Hash()) {
			continue
		}
		if free || !runs(p) || e.plan.Replicas == 1 {
			if free = false; moves {
				ended[p.Name], e.moving = true, p.Name
			}
			continue
		}
		processes[i] = before
	}
	return slices.DeleteFunc(processes, func(p engines.Process) bool { return ended[p.Name] })
}

func (k *Keeper) program(name string) (string, error) {
	if name == "penstock" {
		return k.cfg.Program, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("the program %s is not on PATH", name)
	}
	return path, nil
}

func (k *Keeper) process(e *entry, replica int, name, program string) engines.Process {
	c, err := e.plan.Command(deployment.Server{Replica: replica, Host: host, Port: e.ports[replica],
		Devices: k.assigned[name].devices})
	if err != nil { // deployment.New has checked the template
		e.missing = err.Error()
	}
	t := e.plan.Process
	address := net.JoinHostPort(host, strconv.Itoa(int(e.ports[replica])))
	p := engines.Process{Name: name, Command: append([]string{program}, c.Args...), Inherited: k.cfg.Inherited,
		Ready:          "http://" + address + cmp.Or(t.Ready, "/health"),
		StartupTimeout: time.Duration(t.StartupTimeoutSeconds) * time.Second,
		StopGrace:      time.Duration(t.StopGraceSeconds) * time.Second}
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

// port returns the port of a process. It begins to search at a place that depends on the name.
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

// free reports whether no process listens on a port of this machine.
func free(port uint16) bool { return freeport.Free(int(port)) }

// ready lists the servers of a deployment that serve.
func (k *Keeper) ready(e *entry) (out []deployment.Server) {
	for replica, port := range e.ports {
		if s, ok := k.states[ProcessName(e.plan.ID(), replica)]; ok && s.Phase == engines.Running {
			out = append(out, deployment.Server{Replica: replica, Host: host, Port: port})
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
