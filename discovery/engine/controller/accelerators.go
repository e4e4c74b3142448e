package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-project/penstock/discovery/engine/deployment"
	"github.com/penstock-project/penstock/discovery/engine/devices"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// held is what a server reserves until its process has ended. The state file has it.
type held struct {
	Share   devices.Share    `json:"share"`
	Host    devices.Host     `json:"host,omitzero"`
	Devices []devices.Device `json:"devices"` // as listed when they were assigned
}

func (h held) hold(name string) devices.Hold {
	return devices.Result{Name: name, Share: h.Share, Host: h.Host, Devices: h.Devices}.Hold()
}

type assignment struct {
	devices []devices.Device
	waits   string          // why the server cannot start; "": it can
	room    bool            // the server would start if others ended
	finding *report.Finding // about the deployment; nil: no problem
}

type listing struct {
	command []string
	devices []devices.Device // result of the last success
	listed  bool             // the command succeeded at least once
	err     error            // error of the last attempt
	tried   bool
}

// room is which accelerators this machine has, and which servers have room.
type room struct {
	assigned map[string]assignment // by process
	listings map[string]*listing   // by list command
	unlisted chan struct{}         // signals that list commands must run
}

type request struct {
	engine  *v1alpha1.EngineDevices // nil: the servers request no accelerators
	servers []devices.Request
}

// allocate decides which accelerators each instance gets, and whether it has room. A running
// instance keeps its accelerators, even if no list has them. A blocked instance gets none.
// Deployments with waiting requests come first, then changing ones, then all others, and last the
// surge instances.
func (k *Keeper) allocate() {
	k.assigned = map[string]assignment{}
	open, stays := map[string]devices.Request{}, map[string]bool{}
	ranks := [4]map[string]*request{{}, {}, {}, {}}
	for _, id := range slices.Sorted(maps.Keys(k.entries)) {
		e := k.entries[id]
		for _, n := range e.instances {
			name, rank := ProcessName(id, n), 2
			h, has := k.saved.Devices[name]
			_, continues := k.applied[name]
			continues = continues && e.missing == "" && e.blocked() // keeps its previous command
			switch q := e.request(name); {
			case has && (k.states[name].PID != 0 || e.old[n] || continues):
				k.assigned[name], stays[name] = assignment{devices: h.Devices, finding: k.gone(e.plan.Devices, h)}, true
				continue
			case !q.Reserves() || k.states[name].PID != 0 || e.blocked():
				continue
			case n == e.surge:
				rank = 3
			case e.waiting > 0:
				rank = 0
			case e.changing:
				rank = 1
			}
			key, engine := "", e.selected()
			if engine != nil {
				key = engine.Variable + "\x00" + strings.Join(engine.List, "\x00")
			}
			if ranks[rank][key] == nil {
				ranks[rank][key] = &request{engine: engine}
			}
			open[name] = e.request(name)
			ranks[rank][key].servers = append(ranks[rank][key].servers, open[name])
		}
	}
	maps.DeleteFunc(k.saved.Devices, func(name string, _ held) bool {
		return k.states[name].PID == 0 && !open[name].Reserves() && !stays[name]
	})
	for _, all := range ranks {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			k.place(all[key], open)
		}
	}
}

// selected returns the engine's accelerators; nil: the servers request none.
func (e *entry) selected() *v1alpha1.EngineDevices {
	if e.plan.Share == 0 {
		return nil
	}
	return e.plan.Devices
}

func (h held) satisfies(q devices.Request) bool {
	if h.Share != q.Share || h.Host != q.Host {
		return false
	}
	r := devices.Allocate(h.Devices, devices.Host{}, []devices.Hold{h.hold(q.Name)}, []devices.Request{q})
	return len(r) == 1 && r[0].Reason == ""
}

// place allocates the devices of one list. open has the requests of all lists, by process.
func (k *Keeper) place(r *request, open map[string]devices.Request) {
	all, note, err := k.listed(r.engine)
	if err != nil {
		for _, q := range r.servers {
			a := assignment{waits: err.Error()}
			if !errors.Is(err, errNotListed) {
				a.finding = &report.Finding{Severity: report.Error, Field: deployment.FieldGPU, Problem: a.waits,
					Fix: "install the driver of the accelerators; or start penstock with --devices N"}
			}
			k.assigned[q.Name] = a
		}
		return
	}
	var holds []devices.Hold
	own := map[string]bool{}
	for _, q := range r.servers {
		own[q.Name] = true
	}
	for name, h := range k.saved.Devices {
		if q, waits := open[name]; own[name] || !waits || h.satisfies(q) {
			holds = append(holds, h.hold(name))
		}
	}
	for _, result := range devices.Allocate(all, k.cfg.Host, holds, r.servers) {
		if result.Reason == "" {
			k.saved.Devices[result.Name] = held{Share: result.Share, Host: result.Host, Devices: result.Devices}
			k.assigned[result.Name] = assignment{devices: result.Devices}
			continue
		}
		if note != "" && result.Resource == devices.Accelerators {
			result.Reason += "; " + note
		}
		i := slices.IndexFunc(r.servers, func(q devices.Request) bool { return q.Name == result.Name })
		k.assigned[result.Name] = assignment{waits: result.Reason, room: !result.Never,
			finding: k.noRoom(all, r.servers[i], result.Shortage)}
	}
}

// fits reports whether a process would have room if the processes in without ended.
func (k *Keeper) fits(name string, without map[string]bool) bool {
	e := k.entries[deploymentOf(name)]
	all, _, err := k.listed(e.selected())
	if err != nil {
		return false
	}
	var holds []devices.Hold
	for holder, h := range k.saved.Devices {
		if holder != name && !without[holder] {
			holds = append(holds, h.hold(holder))
		}
	}
	return devices.Allocate(all, k.cfg.Host, holds, []devices.Request{e.request(name)})[0].Reason == ""
}

func (k *Keeper) holds(id string) bool {
	for name := range k.saved.Devices {
		if deploymentOf(name) == id {
			return true
		}
	}
	return false
}

// free adds the processes of a deployment that have a reservation to freed.
func (k *Keeper) free(freed map[string]bool, id string) {
	for name := range k.saved.Devices {
		if deploymentOf(name) == id {
			freed[name] = true
		}
	}
}

func (k *Keeper) noRoom(all []devices.Device, q devices.Request, s devices.Shortage) *report.Finding {
	f := &report.Finding{Severity: report.Warning, Field: "spec.resources." + string(s.Resource), Problem: s.Reason,
		Fix: fmt.Sprintf("it starts once there is room: lower replicas or %s, or delete a deployment", s.Resource)}
	if !s.Never {
		return f
	}
	f.Severity, f.Fix = report.Error, "write less, or remove it"
	switch s.Resource {
	case devices.Cores:
		f.Fix = fmt.Sprintf("write %s at most, or remove it", k.cfg.Host.Cores)
		return f
	case devices.Memory:
		f.Fix = fmt.Sprintf("write %dMi at most, or remove it", k.cfg.Host.Memory)
		return f
	}
	if known := products(all, ""); q.Accelerator != "" && len(products(all, q.Accelerator)) == 0 {
		f.Field = deployment.FieldAccelerator
		if len(known) > 0 {
			f.Fix = "write one of " + strings.Join(known, ", ") + ", or remove it"
		}
	}
	return f
}

// products returns the sorted names of the devices that match an accelerator; "" matches all.
func products(all []devices.Device, accelerator string) (names []string) {
	for _, d := range all {
		q := devices.Request{Name: "any", Share: devices.Whole, Accelerator: accelerator}
		if devices.Allocate([]devices.Device{d}, devices.Host{}, nil, []devices.Request{q})[0].Reason == "" {
			names = append(names, d.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (k *Keeper) gone(engine *v1alpha1.EngineDevices, h held) *report.Finding {
	if engine == nil || len(h.Devices) == 0 {
		return nil
	}
	all, _, err := k.listed(engine)
	if err != nil {
		return nil
	}
	for _, d := range h.Devices {
		if !slices.ContainsFunc(all, func(o devices.Device) bool { return o.UUID == d.UUID }) {
			return &report.Finding{Severity: report.Warning, Field: deployment.FieldGPU,
				Problem: fmt.Sprintf("the device %s (%s), which a server uses, is not there any more", d.UUID, d.Name),
				Fix:     "check the device; the server gets another one when it starts again"}
		}
	}
	return nil
}

var errNotListed = errors.New("the devices of this machine are not listed yet")

// listed returns the devices that an engine's servers may use. note explains why there may be
// fewer.
func (k *Keeper) listed(engine *v1alpha1.EngineDevices) (all []devices.Device, note string, err error) {
	if engine == nil {
		return nil, "", nil
	}
	if k.cfg.Devices > 0 {
		all = devices.Numbered(k.cfg.Devices)
	} else {
		l := k.listings[strings.Join(engine.List, "\x00")]
		switch {
		case l == nil || !l.tried:
			k.listing(engine.List)
			return nil, "", errNotListed
		case !l.listed:
			return nil, "", fmt.Errorf("the devices of this machine are not known: %w", l.err)
		}
		all = l.devices
	}
	inherited := map[string]string{}
	for _, v := range k.cfg.Inherited {
		name, value, _ := strings.Cut(v, "=")
		inherited[name] = value
	}
	value, restricted := inherited[engine.Variable]
	if !restricted {
		return all, "", nil
	}
	all, note = devices.Visible(all, value, inherited["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID")
	if note == "" {
		note = fmt.Sprintf("%s=%s of this process leaves %d", engine.Variable, value, len(all))
	}
	return all, note, nil
}

func (k *Keeper) listing(command []string) {
	key := strings.Join(command, "\x00")
	if k.listings[key] == nil {
		k.listings[key] = &listing{command: command}
	}
	signal(k.unlisted)
}

// again is the n-th recheck. If a deployment lacks a server, or at every recheckAll-th call, it
// requests lists and reports that a sync is due.
func (k *Keeper) again(n int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.readAgain()
	for id, e := range k.entries {
		if n%recheckAll == 0 || k.lacking(id, e) {
			signal(k.unlisted)
			return true
		}
	}
	return false
}

func (k *Keeper) lacking(id string, e *entry) bool {
	if _, sleeps := k.saved.Stopped[id]; sleeps || !e.runs() {
		return false
	}
	return e.blocked() || slices.ContainsFunc(k.names(id, e), func(name string) bool {
		return k.states[name].PID == 0 || k.assigned[name].waits != ""
	})
}

// list executes requested list commands until ctx ends. A hanging driver delays no other goroutine.
func (k *Keeper) list(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.unlisted:
		}
		k.mu.Lock()
		var commands [][]string
		for _, key := range slices.Sorted(maps.Keys(k.listings)) {
			commands = append(commands, k.listings[key].command)
		}
		k.mu.Unlock()
		for _, command := range commands {
			all, err := k.cfg.List(ctx, command)
			k.mu.Lock()
			l := k.listings[strings.Join(command, "\x00")]
			if l.tried, l.err = true, err; err == nil {
				l.listed, l.devices = true, all
			}
			k.mu.Unlock()
		}
		signal(k.dirty)
	}
}

func listDevices(ctx context.Context, command []string) ([]devices.Device, error) {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return nil, fmt.Errorf("the program %s is not on PATH", command[0])
	}
	return devices.List(ctx, append([]string{path}, command[1:]...))
}

func (k *Keeper) used(id string, e *entry) string {
	var out []string
	for _, replica := range e.instances {
		var indexes []string
		for _, d := range k.assigned[ProcessName(id, replica)].devices {
			indexes = append(indexes, strconv.Itoa(d.Index))
		}
		if len(indexes) > 0 {
			out = append(out, fmt.Sprintf("server %d uses device %s", replica, strings.Join(indexes, " and ")))
		}
	}
	return strings.Join(out, "; ")
}
