package deployment

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-project/penstock/discovery/engine/commandline"
	"github.com/penstock-project/penstock/discovery/engine/devices"
	"github.com/penstock-project/penstock/discovery/engine/memory"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// Memory has the settings that determine how much memory of its accelerators a server takes. If the
// server uses no accelerator, they determine how much main memory it takes.
type Memory struct {
	Path     string // absolute path of the model
	Settings memory.Settings
	// Utilization is the fraction of each accelerator's memory that the engine uses, above 0 and at
	// most 1.
	Utilization float64
	// Limits means that an argument of the command sets Utilization.
	Limits bool
	// Layers is the number of layers that the engine puts on accelerators; -1: all.
	Layers int64
	// ContextArgument is the name of the argument that sets the context length.
	ContextArgument string
}

// Memory returns the settings for an estimate; ok is false if one of them is unknown. model is the
// path of the model, if it comes from a registry. inherited has the environment that servers
// inherit, as KEY=value.
func (p *Plan) Memory(model string, inherited []string) (m Memory, ok bool) {
	// host means that the server uses main memory instead of an accelerator.
	host := p.selects && p.Share == 0 && p.Host.Memory > 0
	if p.Share == 0 && !host || p.Devices == nil || p.Devices.Memory == nil {
		return m, false
	}
	e, spec := p.Devices.Memory, p.Deployment.Spec.Model
	if m.Path = model; spec.Registry == "" {
		if m.Path = spec.File; m.Path == "" {
			m.Path = spec.Name
		}
	}
	c, err := p.Command(Server{Model: m.Path})
	if err != nil || !filepath.IsAbs(m.Path) || p.unknownWith(e, c, inherited) {
		return m, false
	}
	m.Layers, m.Settings.HostEmbedding = -1, len(e.LayersArguments) > 0 && !host
	if text, set := argument(c.Args, e.LayersArguments); len(e.LayersArguments) > 0 && text != "all" && !host {
		if m.Layers, err = strconv.ParseInt(text, 10, 64); !set || err != nil || m.Layers < 0 {
			return m, false
		}
	}
	if len(e.ContextArguments) > 0 {
		m.ContextArgument = e.ContextArguments[0]
	}
	if text, set := argument(c.Args, e.ContextArguments); set {
		if m.Settings.Context, ok = memory.ParseContext(text); !ok {
			return m, false
		}
	}
	m.Settings.LeastContext = int64(e.LeastContext)
	m.Settings.NoCache = p.task != v1alpha1.TextGeneration
	m.Settings.Keys, m.Settings.Values = e.CacheType, e.CacheType
	for into, names := range map[*string][]string{&m.Settings.Keys: e.KeyTypeArguments,
		&m.Settings.Values: e.ValueTypeArguments, &m.Settings.Weights: e.WeightTypeArguments} {
		if text, set := argument(c.Args, names); set {
			*into = text
		}
	}
	return m, m.utilization(p, e, c.Args)
}

// utilization sets m.Utilization and m.Limits. It returns false if an argument's value is invalid.
func (m *Memory) utilization(p *Plan, e *v1alpha1.EngineMemory, args []string) bool {
	text := e.Utilization
	if p.Devices.MemoryArgument != "" {
		if value, set := argument(args, []string{p.Devices.MemoryArgument}); set {
			text, m.Limits = value, true
		}
	}
	m.Utilization = 1
	if text == "" {
		return true
	}
	part, err := strconv.ParseFloat(text, 64)
	m.Utilization = part
	return err == nil && part > 0 && part <= 1
}

// unknownWith reports whether a command has an argument or an environment variable whose effect on
// memory is unknown, so no estimate is possible.
func (p *Plan) unknownWith(e *v1alpha1.EngineMemory, c Command, inherited []string) bool {
	if _, set := argument(c.Args, e.UnknownWith); set {
		return true
	}
	known := slices.Concat(e.UnknownWith, e.ContextArguments, e.KeyTypeArguments, e.ValueTypeArguments,
		e.WeightTypeArguments, e.LayersArguments)
	if slices.ContainsFunc(p.arguments, func(arg string) bool { return abbreviates(arg, known) }) {
		return true
	}
	names := slices.Clone(inherited)
	for _, env := range c.Env {
		names = append(names, env.Name)
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return slices.ContainsFunc(e.UnknownWithEnv, func(begin string) bool { return strings.HasPrefix(name, begin) })
	})
}

// shortest is the least length of a prefix that counts as an abbreviated argument name. Python's
// argument parsers accept a unique prefix of a name.
const shortest = 4

// abbreviates reports whether the name of an argument is a proper prefix of one of names.
func abbreviates(arg string, names []string) bool {
	name, ok := strings.CutPrefix(arg, "--")
	name, _, _ = strings.Cut(name, "=")
	return ok && len(name) >= shortest && slices.ContainsFunc(names, func(n string) bool {
		return len(n) > len(name) && strings.HasPrefix(commandline.Normalized(n), commandline.Normalized(name))
	}) && !slices.ContainsFunc(names, func(n string) bool {
		return commandline.Normalized(n) == commandline.Normalized(name)
	})
}

func argument(args, names []string) (value string, set bool) {
	for i, arg := range args {
		name, ok := strings.CutPrefix(arg, "-")
		if !ok {
			continue
		}
		name, text, joined := strings.Cut(strings.TrimPrefix(name, "-"), "=")
		name, _, _ = strings.Cut(name, ".") // --name.field sets a field of an object
		if !slices.ContainsFunc(names, func(n string) bool {
			return commandline.Normalized(n) == commandline.Normalized(name)
		}) {
			continue
		}
		if !joined && i+1 < len(args) {
			text = args[i+1]
		}
		value, set = text, true
	}
	return value, set
}

// Accelerators returns the number of accelerators that a server uses. A fraction counts as 1.
func (p *Plan) Accelerators() int64 { return int64((p.Share + devices.Whole - 1) / devices.Whole) }
