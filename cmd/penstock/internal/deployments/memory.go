package deployments

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/penstock-project/penstock/discovery/engine/deployment"
	"github.com/penstock-project/penstock/discovery/engine/devices"
	"github.com/penstock-project/penstock/discovery/engine/fetch"
	"github.com/penstock-project/penstock/discovery/engine/memory"
	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/discovery/status/report"
)

// memoryState is the estimate of the memory that each server of a deployment needs.
type memoryState struct {
	device  int64           // MiB that each of its accelerators needs; 0: not known
	waits   string          // why it is not known yet
	finding *report.Finding // of severity error if no server can start
}

func (m *memoryState) blocks() bool {
	return m.waits != "" || m.finding != nil && m.finding.Severity == report.Error
}

// sizes has the facts of models, by path.
type sizes struct {
	facts map[string]*facts
	due   chan struct{} // a model is to be read
	disk  filesystem.Disk
}

type facts struct {
	used  bool // a deployment needs it
	due   bool // it is to be read, perhaps again
	read  bool
	known bool
	model memory.Model
}

// memory estimates what a server of a deployment needs. Without a fact, it returns nothing: the
// engine decides by itself.
func (k *Keeper) memory(e *entry) (out memoryState) {
	m, ok := e.plan.Memory(e.model.path, k.cfg.Inherited)
	if !ok || e.missing != "" || e.model.waits != "" || e.plan.Replicas == 0 {
		return out
	}
	f := k.sizes.facts[m.Path]
	if f == nil {
		f = &facts{due: true}
		k.sizes.facts[m.Path] = f
		k.readSizes()
	}
	f.used = true
	if !f.read {
		out.waits = "the sizes of the model's files are read"
		return out
	}
	if !f.known || m.Layers >= 0 && m.Layers <= f.model.Layers {
		return out
	}
	need, known := memory.Estimate(f.model, m.Settings)
	if !known {
		return out
	}
	if e.plan.Share == 0 {
		out.finding = moreThanReserved(e.plan, need)
		return out
	}
	n := e.plan.Accelerators()
	out.device = int64(math.Floor(float64(need.Total()) / float64(n) / m.Utilization / (1 << 20)))
	if all, _, err := k.listed(e.plan.Devices); err == nil {
		out.finding = tooLarge(e.plan, m, need, all, out.device)
	}
	return out
}

// moreThanReserved warns of a server without accelerators that needs more than it reserves.
func moreThanReserved(p *deployment.Plan, need memory.Need) *report.Finding {
	if need.Total() <= p.Host.Memory<<20 {
		return nil
	}
	return &report.Finding{Severity: report.Warning, Field: deployment.FieldMemory,
		Problem: fmt.Sprintf("reserves %s, and the server needs %s at least: servers may lack memory",
			fetch.Size(p.Host.Memory<<20), fetch.Size(need.Total())),
		Fix: fmt.Sprintf("write %dMi or more", (need.Total()-1)>>20+1)}
}

// tooLarge reports that no accelerators of this machine have room for a server.
func tooLarge(p *deployment.Plan, m deployment.Memory, need memory.Need, all []devices.Device,
	least int64) *report.Finding {
	var best devices.Device
	known := len(products(all, p.Accelerator)) > 0
	same := 0 // devices like the best one
	for _, d := range all {
		if d.MIG || len(products([]devices.Device{d}, p.Accelerator)) == 0 {
			continue
		}
		known = known && d.Memory > 0
		switch {
		case d.Memory > best.Memory:
			best, same = d, 1
		case d.Memory == best.Memory && d.Name == best.Name:
			same++
		}
	}
	if !known {
		return nil
	}
	f := &report.Finding{Severity: report.Error, Field: deployment.FieldGPU}
	room := int64(float64(best.Memory<<20) * m.Utilization) // of one device
	has := fmt.Sprintf("device %d (%s) has %s", best.Index, best.Name, fetch.Size(best.Memory<<20))
	count := p.Accelerators()
	if count > 1 {
		has = fmt.Sprintf("%d devices such as %d (%s) have %s", count, best.Index, best.Name,
			fetch.Size(count*best.Memory<<20))
	}
	if m.Utilization < 1 {
		has += fmt.Sprintf(", of which the engine uses %.4g", m.Utilization)
	}
	switch part := int64(float64(best.Memory<<20) * float64(p.Share) / float64(devices.Whole)); {
	case best.Memory < least:
	case p.Share < devices.Whole && !m.Limits && need.Total() > part:
		f.Severity, room = report.Warning, part
		has = fmt.Sprintf("its share %s of %s has %s: servers on the same accelerator may lack memory", p.Share,
			best.Name, fetch.Size(part))
	default:
		return nil
	}
	what := fetch.Size(need.Weights) + " for weights"
	if need.Cache > 0 {
		what += fmt.Sprintf(" and %s for a cache of %d tokens", fetch.Size(need.Cache), need.Context)
	}
	f.Problem = fmt.Sprintf("a server needs %s of accelerator memory, %s, and %s", fetch.Size(need.Total()), what, has)
	f.Fix = smaller(p, m, need, room, same)
	return f
}

// contextStep rounds a proposed context.
const contextStep = 256

// smaller proposes what to write so that a server fits. room has the bytes of one device, of which
// the machine has same.
func smaller(p *deployment.Plan, m deployment.Memory, need memory.Need, room int64, same int) string {
	fix := "write a smaller quantization of the model"
	if n := (need.Total() + room - 1) / max(room, 1); p.Share < devices.Whole {
		fix = "write a larger part in " + deployment.FieldGPU + ", or " + fix
	} else if n > p.Accelerators() && n <= int64(same) {
		fix = fmt.Sprintf("write %s: %d, or ", deployment.FieldGPU, n) + fix
	}
	left := room*p.Accelerators() - need.Weights
	if need.Token == 0 || m.ContextArgument == "" || left < contextStep*need.Token {
		return fix
	}
	left -= need.Cache - need.Token*need.Context // layers with a window
	if tokens := left / need.Token / contextStep * contextStep; tokens > 0 && tokens < need.Context {
		fix = fmt.Sprintf("write spec.variables.%s: %d at most, or ", m.ContextArgument, tokens) + fix
	}
	return fix
}

// dropSizes forgets models that no deployment needs.
func (k *Keeper) dropSizes() {
	maps.DeleteFunc(k.sizes.facts, func(_ string, f *facts) bool {
		unused := !f.used
		f.used = false
		return unused
	})
}

// readAgain requests the sizes of models that have no room: their files may have changed. k.mu is
// held.
func (k *Keeper) readAgain() {
	for _, e := range k.entries {
		if e.plan == nil || e.memory.finding == nil {
			continue
		}
		m, _ := e.plan.Memory(e.model.path, k.cfg.Inherited)
		if f := k.sizes.facts[m.Path]; f != nil {
			f.due = true
			k.readSizes()
		}
	}
}

func (k *Keeper) readSizes() {
	select {
	case k.sizes.due <- struct{}{}:
	default:
	}
}

// read reads the sizes of models until ctx ends.
func (k *Keeper) read(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.sizes.due:
		}
		k.mu.Lock()
		var paths []string
		for _, path := range slices.Sorted(maps.Keys(k.sizes.facts)) {
			if k.sizes.facts[path].due {
				paths = append(paths, path)
			}
		}
		k.mu.Unlock()
		for _, path := range paths {
			model, known := k.readModel(ctx, path)
			k.mu.Lock()
			if f := k.sizes.facts[path]; f != nil {
				f.due, f.read, f.known, f.model = false, true, known, model
			}
			k.mu.Unlock()
			k.poke()
		}
	}
}

// readModel reads the sizes of a model. A disk that hangs, or a panic, delays no server for long:
// it starts without an estimate.
func (k *Keeper) readModel(ctx context.Context, path string) (model memory.Model, known bool) {
	model, err := filesystem.Do(ctx, &k.sizes.disk, path, func() (m memory.Model, err error) {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("reading it panics, which is a bug of Penstock: %v", v)
			}
		}()
		return memory.Read(path)
	})
	if err != nil {
		k.cfg.Log.Debug("the memory of a model is not estimated", "path", path, "error", err)
	}
	return model, err == nil
}
