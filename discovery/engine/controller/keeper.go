package controller

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/penstock-project/penstock/discovery/engine/deployment"
	"github.com/penstock-project/penstock/discovery/engine/devices"
	"github.com/penstock-project/penstock/discovery/engine/processes"
	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// Store is implemented by *store.Store.
type Store interface {
	Apply(ops ...store.Op) (store.Revision, error)
	Recall(ops ...store.Op)
}

// Config configures a Keeper.
type Config struct {
	Store  Store
	Report func([]report.Report)
	// StateFile has the ports of servers and the last valid deployments; "": nothing is persisted.
	StateFile string
	// Devices is the number of accelerators; 0: the engines' list commands list them.
	Devices int
	// Host is the cores and the memory that all servers together may reserve.
	Host devices.Host
	// List executes a list command; nil: devices.List, with the program searched on PATH.
	List    func(ctx context.Context, command []string) ([]devices.Device, error)
	Program string
	// Installed are folders with the engines of `penstock engines install`.
	Installed []string
	// Inherited are environment variables of this process, as KEY=value, that engines get.
	Inherited []string
	// Models downloads models of registries; nil: none can be downloaded.
	Models Models
	// OnPhase is called when the phase of a deployment changes; may be nil.
	OnPhase func(id, phase, message string)
	Log     *slog.Logger
}

// Keeper derives objects from ModelDeployments and runs their servers.
type Keeper struct {
	cfg    Config
	dirty  chan struct{} // signals that a sync is due
	needed chan struct{} // closed once there is a deployment

	mu          sync.Mutex // guards the fields below
	seen        bool       // needed is closed
	supervised  bool
	unavailable string // why servers cannot be started
	inputs
	derived map[object]store.Object // derived objects in the store
	entries map[string]*entry       // by deployment
	saved   saved
	fleet
	room
	requests Requests      // nil: deployments do not stop
	outcomes chan struct{} // closed when an outcome of Resume may have changed
	models   models
	sizes    sizes
	disk     filesystem.Disk // bounds the time of a look at files that users name
}

// fleet has the processes by name.
type fleet struct {
	states   map[string]processes.State
	applied  map[string]processes.Process
	versions map[string]string // versions of applied processes
	proven   map[string]bool   // processes that were ready
}

type entry struct {
	deployment *v1alpha1.ModelDeployment // as planned last
	engine     *v1alpha1.Engine
	cluster    string           // names of this cluster when it was planned
	newest     *deployment.Plan // nil: the newest version is invalid
	last       *deployment.Plan // the last valid version; nil: none
	plan       *deployment.Plan // newest, or last
	found      []report.Finding
	taken      *report.Finding // another deployment owns a name of the newest version
	conflict   *report.Finding // why plan is not in use
	kept       bool            // running servers continue despite the conflict with a user's object
	missing    string          // why no process can be started
	model      modelState
	memory     memoryState
	adapters   map[string]string // paths of adapters by name
	env        environment
	phase      string
	words      map[int]string // why servers do not run, by replica
	demand
	rollout
}

// blocked reports whether no server of the newest version can start: its program, model or Secret
// is absent, or no accelerator has enough memory.
func (e *entry) blocked() bool {
	return e.missing != "" || e.model.waits != "" || e.memory.blocks() || e.env.waits != ""
}

// New makes a Keeper.
func New(cfg Config) *Keeper {
	if cfg.List == nil {
		cfg.List = listDevices
	}
	return &Keeper{cfg: cfg, dirty: make(chan struct{}, 1), needed: make(chan struct{}), inputs: newInputs(),
		derived: map[object]store.Object{}, entries: map[string]*entry{}, saved: load(cfg.StateFile, cfg.Log),
		fleet: fleet{states: map[string]processes.State{}, applied: map[string]processes.Process{},
			versions: map[string]string{}, proven: map[string]bool{}},
		room:     room{listings: map[string]*listing{}, unlisted: make(chan struct{}, 1)},
		outcomes: make(chan struct{}), models: newModels(),
		sizes: sizes{facts: map[string]*facts{}, due: make(chan struct{}, 1)}}
}

// Recall calls the store's Recall.
func (k *Keeper) Recall(ops ...store.Op) { k.cfg.Store.Recall(ops...) }

// Apply stores changes of a user's files, together with the changes of derived objects.
func (k *Keeper) Apply(ops ...store.Op) (store.Revision, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.follow(ops) {
		return k.cfg.Store.Apply(ops...)
	}
	maps.DeleteFunc(k.entries, func(id string, _ *entry) bool { return k.deployments[id] == nil })
	maps.DeleteFunc(k.saved.Good, func(id string, _ v1alpha1.ModelDeploymentSpec) bool {
		return k.deployments[id] == nil
	})
	maps.DeleteFunc(k.saved.Stopped, func(id string, _ stopped) bool { return k.deployments[id] == nil })
	for id, d := range k.deployments {
		k.plan(id, d)
	}
	owners := k.own()
	for id, e := range k.entries {
		if e.env = k.environment(e.plan); e.plan != nil && e.plan.Replicas == 0 {
			delete(k.saved.Stopped, id) // a paused deployment is not Asleep
		}
	}
	if len(k.deployments) > 0 && !k.seen {
		k.seen = true
		close(k.needed)
	}
	rev, err := k.commit(ops)
	if err == nil && k.seen { // before the first deployment, names of an earlier process stay
		k.saved.Names = owners
	}
	k.report()
	k.save()
	signal(k.dirty)
	return rev, err
}

// follow records changes, and reports whether one of them may concern a deployment.
func (k *Keeper) follow(ops []store.Op) (concerned bool) {
	for _, op := range ops {
		models := k.models.follow(op)
		secret := op.Kind() == store.Secrets.Kind() && k.usesSecret(op.ID())
		derived := k.derived[object{op.Kind(), op.ID()}] != nil
		concerned = k.inputs.follow(op) || models || secret || derived || concerned
	}
	return concerned
}

func (k *Keeper) plan(id string, d *v1alpha1.ModelDeployment) {
	e := k.entries[id]
	if e == nil {
		e = &entry{}
		k.entries[id] = e
	}
	engine, cluster := k.engines[d.Spec.Engine.Name], k.cluster.String()
	if e.deployment == d && e.engine == engine && e.cluster == cluster && e.plan != nil {
		return
	}
	e.deployment, e.engine, e.cluster = d, engine, cluster
	e.newest, e.found = k.planned(d)
	if spec, ok := k.saved.Good[id]; ok && e.last == nil { // saved by an earlier process
		last := *d
		last.Spec = spec
		e.last, _ = k.planned(&last)
	}
}

// A panic becomes a finding, so that other deployments are not affected.
func (k *Keeper) planned(d *v1alpha1.ModelDeployment) (plan *deployment.Plan, found []report.Finding) {
	defer func() {
		if v := recover(); v != nil {
			k.cfg.Log.Error("planning a ModelDeployment panics, which is a bug of Penstock", "deployment", store.ID(d),
				"panic", v)
			plan, found = nil, []report.Finding{{Severity: report.Error, Field: "spec",
				Problem: "reading this deployment panics, which is a bug of Penstock", Fix: "undo its last change"}}
		}
	}()
	plan, found = deployment.New(d, k.engines)
	if f := k.cluster.check(d); f != nil {
		return nil, append([]report.Finding{*f}, found...)
	}
	return plan, found
}

func (k *Keeper) commit(ops []store.Op) (store.Revision, error) {
	tables := map[string]store.Kind{}
	for _, t := range deployment.Derived() {
		tables[t.Kind()] = t
	}
	wanted, ops := k.wanted(), slices.Clip(ops) // append must not write to the caller's array
	for key := range k.derived {
		if wanted[key] == nil && !k.users[key] {
			ops = append(ops, tables[key.kind].Delete(key.id))
		}
	}
	for key, obj := range wanted {
		ops = append(ops, tables[key.kind].PutObject(obj))
	}
	rev, err := k.cfg.Store.Apply(ops...)
	if err == nil {
		k.derived = wanted
	}
	return rev, err
}

func (k *Keeper) wanted() map[object]store.Object {
	out := map[object]store.Object{}
	for id, e := range k.entries {
		if e.plan != nil && e.conflict == nil {
			maps.Copy(out, k.objects(id, e))
		}
	}
	return out
}

func (k *Keeper) objects(id string, e *entry) map[object]store.Object {
	out := map[object]store.Object{}
	for _, obj := range e.plan.Objects(k.servers(id, e)) {
		out[object{kindOf(obj), id}] = obj
	}
	return out
}

func kindOf(obj store.Object) string {
	for _, t := range deployment.Derived() {
		if fmt.Sprintf("%T", t.New()) == fmt.Sprintf("%T", obj) {
			return t.Kind()
		}
	}
	return ""
}
