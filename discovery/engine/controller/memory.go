package controller

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

type memoryState struct {
	device  int64           // MiB that each of its accelerators needs; 0: unknown
	waits   string          // why the estimate is not known yet, or ""
	finding *report.Finding // severity error: no server can start; nil: no problem
}

func (m *memoryState) blocks() bool {
	return m.waits != "" || m.finding != nil && m.finding.Severity == report.Error
}

type sizes struct {
	facts map[string]*facts
	due   chan struct{} // signals that a model must be read
	disk  filesystem.Disk
}

type facts struct {
	used  bool // a deployment needs the model
	due   bool // the model must be read, perhaps again
	read  bool
	known bool
	model memory.Model
}

// memory estimates what a server needs. With an unknown size, the server starts without an
// estimate.
func (k *Keeper) memory(e *entry) (out memoryState) {
	m, ok := e.plan.Memory(e.model.path, k.cfg.Inherited)
	if !ok || e.missing != "" || e.model.waits != "" || e.plan.Replicas == 0 {
		return out
	}
	f := k.sizes.facts[m.Path]
	if f == nil {
		f = &facts{due: true}
		k.sizes.facts[m.Path] = f
		signal(k.sizes.due)
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

func moreThanReserved(p *deployment.Plan, need memory.Need) *report.Finding {
	if need.Total() <= p.Host.Memory<<20 {
		return nil
	}
	return &report.Finding{Severity: report.Warning, Field: deployment.FieldMemory,
		Problem: fmt.Sprintf("reserves %s, and the server needs %s at least: servers may lack memory",
			fetch.Size(p.Host.Memory<<20), fetch.Size(need.Total())),
		Fix: fmt.Sprintf("write %dMi or more", (need.Total()-1)>>20+1)}
}

func tooLarge(p *deployment.Plan, m deployment.Memory, need memory.Need, all []devices.Device,
	least int64) *report.Finding {
	var best devices.Device
	known := len(products(all, p.Accelerator)) > 0
	same := 0 // number of devices like best
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
	room := int64(float64(best.Memory<<20) * m.Utilization) // of one device, in bytes
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

// contextStep rounds a proposed context, in tokens.
const contextStep = 256

// smaller proposes a change with which a server fits. room is in bytes of one device; the machine
// has same such devices.
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
	left -= need.Cache - need.Token*need.Context // the part of the cache that does not grow with the context
	if tokens := left / need.Token / contextStep * contextStep; tokens > 0 && tokens < need.Context {
		fix = fmt.Sprintf("write spec.variables.%s: %d at most, or ", m.ContextArgument, tokens) + fix
	}
	return fix
}

func (k *Keeper) dropSizes() {
	maps.DeleteFunc(k.sizes.facts, func(_ string, f *facts) bool {
		unused := !f.used
		f.used = false
		return unused
	})
}

// readAgain reads models without room again, because their files may have changed. k.mu is held.
func (k *Keeper) readAgain() {
	for _, e := range k.entries {
		if e.plan == nil || e.memory.finding == nil {
			continue
		}
		m, _ := e.plan.Memory(e.model.path, k.cfg.Inherited)
		if f := k.sizes.facts[m.Path]; f != nil {
			f.due = true
			signal(k.sizes.due)
		}
	}
}

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
			signal(k.dirty)
		}
	}
}

// readModel reads the sizes of a model. known is false if the disk hangs or the reader panics.
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
