package endpoint

import "sync/atomic"

// recentAdapters remembers the LoRA adapters that picks had a server load. A page shows the
// adapters with requests only; a server keeps others until it needs their slots.
type recentAdapters struct {
	ring [16]atomic.Uint64 // hashes, in the order in which they were loaded
	next atomic.Uint32
}

// has reports whether a server with slots for slots adapters still has one: it was among the last
// as many that were loaded.
func (r *recentAdapters) has(adapter uint64, slots int) bool {
	next := r.next.Load()
	for i := range uint32(min(slots, len(r.ring))) {
		if r.ring[(next-1-i)%uint32(len(r.ring))].Load() == adapter {
			return true
		}
	}
	return false
}

// add makes the server have an adapter, in place of the one that was loaded before all others.
func (r *recentAdapters) add(adapter uint64, slots int) {
	if slots > 0 && !r.has(adapter, slots) {
		r.ring[(r.next.Add(1)-1)%uint32(len(r.ring))].Store(adapter)
	}
}

// HasAdapter reports whether picks have had e's server load an adapter, given by a hash of its
// name, and since then fewer others than it has slots for.
func (e *Endpoint) HasAdapter(adapter uint64, slots int) bool {
	return e.load.adapters.has(adapter, slots)
}

// AddAdapter records that a pick of another process has had the server load an adapter, for which
// it has slots.
func (l *Load) AddAdapter(adapter uint64, slots int) { l.adapters.add(adapter, slots) }
