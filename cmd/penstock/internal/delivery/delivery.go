package delivery

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
)

// Change is one revision of the store, translated.
type Change struct {
	Revision uint64
	View     *store.View
	Objects  []store.Change
	// Output is the result of translation. Later steps do not deliver parts that a step removes.
	Output translator.Output
	Trace  trace.SpanContext
}

// Stage is a position in the order of delivery.
type Stage int

const (
	Report Stage = iota
	Claim
	Shrink
	Probe
	Commit
	Grow
	Observe
	Reach
	numStages
)

// stages is the order of delivery. why is the reason for a stage's position.
var stages = [numStages]struct{ name, why string }{
	Report: {"report", "the board has a change's reports before anything that refers to them: a NACK, a status"},
	Claim:  {"claim", "a listener whose port belongs to another Gateway of this machine is not committed"},
	Shrink: {
		"shrink", "every picker drops an endpoint before Envoy does: a pick names no endpoint that its cluster lacks",
	},
	Probe:  {"probe", "an external picker is probed as soon as a route leads to it"},
	Commit: {"commit", "the cache, and so every Envoy, has the change from here on"},
	Grow: {
		"grow",
		"the picker names a new endpoint after Envoys have acknowledged it, which they cannot before the commit",
	},
	Observe: {"observe", "status, fleets and supervisors read what is committed"},
	Reach:   {"reach", "waits for a revision end when all of the above is done"},
}

func (s Stage) String() string { return stages[s].name }

// Step is the work of one part at one stage.
type Step struct {
	Stage   Stage
	Deliver func(ctx context.Context, c *Change)
}

// Part is a participant in delivery.
type Part interface{ Steps() []Step }

// Delivery runs the steps of its parts in the order of stages.
type Delivery struct{ steps []Step }

// New makes a Delivery. Steps of the same stage run in the order of parts.
func New(parts ...Part) *Delivery {
	d := &Delivery{}
	for _, p := range parts {
		d.steps = append(d.steps, p.Steps()...)
	}
	slices.SortStableFunc(d.steps, func(a, b Step) int { return int(a.Stage - b.Stage) })
	return d
}

// Deliver runs every step with a change. Calls must be sequential, in the order of revisions.
func (d *Delivery) Deliver(ctx context.Context, c *Change) {
	for _, s := range d.steps {
		s.Deliver(ctx, c)
	}
}

// On returns a Part with a single step.
func On(stage Stage, deliver func(ctx context.Context, c *Change)) Part {
	return single{{stage, deliver}}
}

type single []Step

func (s single) Steps() []Step { return s }
