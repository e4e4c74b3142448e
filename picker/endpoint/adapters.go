package endpoint

import "sync/atomic"

// recentAdapters remembers the LoRA adapters that picks had a server load. A page shows the adapters with requests only; a server
// keeps others until it needs their slots.
type recentAdapters struct {
	ring [16]atomic.Uint64 // hashes
	next atomic.Uint32
}

func (r *recentAdapters) has(adapter uint64) bool {
	for i := range r.ring {
		if r.ring[i].Load() == adapter {
			return true
		}
	}
	return false
}

// add makes the server have an adapter, in place of the one that it has had for the longest time if it has slots for slots of them.
func (r *recentAdapters) add(adapter uint64, slots int) {
	if slots = min(slots, len(r.ring)); slots <= 0 || r.has(adapter) {
		return
	}
	r.ring[int(r.next.Add(1)-1)%slots].Store(adapter)
}

// HasAdapter reports whether picks have had e's server load an adapter, given by a hash of its name.
func (e *Endpoint) HasAdapter(adapter uint64) bool { return e.load.adapters.has(adapter) }

// AddAdapter records that a pick of another process has had the server load an adapter, for which it has slots.
func (l *Load) AddAdapter(adapter uint64, slots int) { l.adapters.add(adapter, slots) }
