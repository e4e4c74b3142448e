package schedule

import (
	"sync/atomic"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
)

var strategies = map[string]func(Options) *Strategy{
	"load": func(Options) *Strategy {
		return &Strategy{scorer: &load{}, trials: true}
	},
	"least-request": func(Options) *Strategy { return &Strategy{scorer: leastRequest{}} },
	"tree":          func(o Options) *Strategy { return &Strategy{chooser: tree{o.Random}} },
	"chwbl":         func(o Options) *Strategy { return &Strategy{chooser: newCHWBL(o)} },
	"session":       func(o Options) *Strategy { return &Strategy{chooser: newSession(o)} },
	Plugins:         newPlugins,
	"round-robin":   func(Options) *Strategy { return &Strategy{turn: new(atomic.Uint64)} },
	"random":        func(Options) *Strategy { return &Strategy{} },
}

// UsesMetrics reports whether the strategy needs metrics pages.
func UsesMetrics(o *Options) bool {
	switch {
	case o.Full.Queue > 0 || o.Full.KVCachePercent > 0 || o.ShedAfter > 0:
		return true
	case o.Name == Plugins && o.Profile != nil:
		return o.Profile.Pages
	}
	return o.Name == "" || o.Name == "load" || o.Name == "tree"
}

// UsesPrefixes reports whether the strategy compares cached prompts.
func UsesPrefixes(o *Options) bool {
	return o.Name == "" || o.Name == "load" || o.Name == Plugins && o.Profile != nil && o.Profile.Prompts
}

// UsesObjective reports whether the strategy reads Request.Objective.
func UsesObjective(o *Options) bool {
	return o.Name == "" || o.Name == "load" || o.Name == Plugins && o.Profile != nil && o.Profile.Latency
}

// UsesCriticality reports whether the strategy reads Request.Criticality.
func UsesCriticality(o *Options) bool {
	admits := o.Name == Plugins && o.Profile != nil && o.Profile.Admission != (endpointpicker.Admission{})
	return o.Name == "tree" || o.ShedAfter > 0 || admits
}

// ShedsFull reports whether the strategy sheds sheddable requests while no endpoint has capacity.
func ShedsFull(o *Options) bool { return o.ShedFull && (o.Name == "" || o.Name == "load") }

// UsesSpread reports whether a strategy reads Request.Spread.
func UsesSpread(name string) bool { return name == "chwbl" }

// UsesSessions reports whether the strategy reads Request.Session.
func UsesSessions(o *Options) bool {
	return o.Name == "session" || o.Name == Plugins && o.Profile != nil && o.Profile.Sessions
}
