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

// Memory has the settings of a server that decide about the memory of its accelerators, or about
// main memory if it uses none.
type Memory struct {
	Path     string // of the model, absolute
	Settings memory.Settings
	// Utilization is the part of each accelerator that the engine uses, above 0 and at most 1.
	Utilization float64
	// Limits means that an argument limits the part of each accelerator.
	Limits bool
	// Layers is the number of layers that the engine puts on accelerators; -1: all.
	Layers int64
	// ContextArgument is the argument that sets the context.
	ContextArgument string
}

// Memory returns what an estimate is made of, if all of it is known. model is the path of a model
// of a registry. inherited has the KEY=value that servers inherit.
func (p *Plan) Memory(model string, inherited []string) (m Memory, ok bool) {
	host := p.selects && p.Share == 0 && p.Host.Memory > 0 // no accelerator is used
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

// utilization reads the part of each accelerator that the engine uses.
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

// unknownWith reports whether a command has an argument or a variable with which nothing is
// estimated.
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

// shortest is the least length of a beginning that counts as a name: Python's parsers of arguments
// accept one that is unique.
const shortest = 4

// abbreviates reports whether an argument is the beginning of a name.
func abbreviates(arg string, names []string) bool {
	name, ok := strings.CutPrefix(arg, "--")
	name, _, _ = strings.Cut(name, "=")
	return ok && len(name) >= shortest && slices.ContainsFunc(names, func(n string) bool {
		return len(n) > len(name) && strings.HasPrefix(commandline.Normalized(n), commandline.Normalized(name))
	}) && !slices.ContainsFunc(names, func(n string) bool {
		return commandline.Normalized(n) == commandline.Normalized(name)
	})
}

// argument returns the last value of an argument, which has one of several names.
func argument(args, names []string) (value string, set bool) {
	for i, arg := range args {
		name, ok := strings.CutPrefix(arg, "-")
		if !ok {
			continue
		}
		name, text, joined := strings.Cut(strings.TrimPrefix(name, "-"), "=")
		name, _, _ = strings.Cut(name, ".") // a part of an object
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

// Accelerators returns the number of accelerators of a server, which shares its only one if it has
// a fraction.
func (p *Plan) Accelerators() int64 { return int64((p.Share + devices.Whole - 1) / devices.Whole) }
