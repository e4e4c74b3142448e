package schedule

import (
	"maps"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"github.com/penstock-project/penstock/picker/endpoint"
)

const (
	// loadAdapter is how long a server takes to load a LoRA adapter, and awaitSlot how long one
	// whose slots are in use takes to free one, in seconds.
	loadAdapter = 0.3
	awaitSlot   = 1.0
	// assumedSlots is how many adapters a server without a page is taken to have room for.
	assumedSlots = 4
	// maxAdapters bounds the adapters that are known.
	maxAdapters = 4096
)

// adapters are the models that servers have shown to be LoRA adapters: any other is a base model,
// which needs no slot. While no server of a pool has a page, every model counts as an adapter once
// requests ask for more than one.
type adapters struct {
	known   atomic.Pointer[map[string]bool]
	blind   atomic.Bool // at the last pick no server had a page
	first   atomic.Pointer[string]
	several atomic.Bool // models were asked for while blind
	asked   asked
}

// hash returns that of a request's adapter, equal in all processes, and counts the adapter among
// those that are asked for; 0 if the model is not known to be one.
func (a *adapters) hash(model string) uint64 {
	if known := a.known.Load(); model == "" || (known == nil || !(*known)[model]) && !a.guess(model) {
		return 0
	}
	h := max(xxhash.Sum64String(model), 1)
	a.asked.add(h)
	return h
}

// guess reports whether a model counts as an adapter although no server has shown it.
func (a *adapters) guess(model string) bool {
	if !a.blind.Load() {
		return false
	}
	if a.several.Load() {
		return true
	}
	first := a.first.Load()
	if first == nil {
		name := model
		a.first.CompareAndSwap(nil, &name)
		return false
	}
	if *first != model {
		a.several.Store(true)
	}
	return *first != model
}

// learn adds a model that a server shows to be an adapter. Of two concurrent calls one may be lost
// until the next.
func (a *adapters) learn(model string) {
	next := map[string]bool{}
	if known := a.known.Load(); known != nil {
		if len(*known) >= maxAdapters || (*known)[model] {
			return
		}
		next = maps.Clone(*known)
	}
	next[model] = true
	a.known.Store(&next)
}

// cost is what an adapter costs at a server more than at one that has it, in seconds. It reads the
// slots of c.
func (a *adapters) cost(model string, s *endpoint.State, c *Candidate) float64 {
	switch {
	case model == "" || s.Adapters == nil && c.adapter == 0:
		return 0
	case s.Adapters.Has(model):
		if c.adapter == 0 {
			a.learn(model)
		}
		return 0
	case c.adapter == 0 || c.Endpoint.HasAdapter(c.adapter, c.slots):
		return 0
	case s.Adapters != nil && s.Adapters.Max > 0 && !s.Adapters.Free():
		c.crowded = true
		return loadAdapter + awaitSlot
	}
	c.loads = true
	return loadAdapter
}
