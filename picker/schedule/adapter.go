package schedule

import (
	"maps"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"github.com/penstock-project/penstock/picker/endpoint"
)

const (
	// loadAdapter is the assumed time to load a LoRA adapter. awaitSlot is the assumed wait for a
	// server with other adapters in all slots. Both are in seconds.
	loadAdapter = 0.3
	awaitSlot   = 1.0
	// assumedSlots is the assumed number of adapter slots of a server that reports none.
	assumedSlots = 4
	maxAdapters  = 4096
)

// adapters are the models that a pool's metrics pages have listed as LoRA adapters. While no server
// has a fresh page, every model counts as an adapter after requests have named several models.
type adapters struct {
	known   atomic.Pointer[map[string]bool]
	blind   atomic.Bool
	first   atomic.Pointer[string]
	several atomic.Bool // requests named several models without a fresh page
	asked   asked
}

func (a *adapters) hash(model string) uint64 {
	if known := a.known.Load(); model == "" || (known == nil || !(*known)[model]) && !a.guess(model) {
		return 0
	}
	h := max(xxhash.Sum64String(model), 1)
	a.asked.add(h)
	return h
}

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

// learn records that a model is an adapter. Of two concurrent calls, one may have no effect; the
// next pick with its model repeats it.
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
