package endpoint

import "sync/atomic"

// recentAdapters holds the LoRA adapters that the last picks used. A server keeps idle adapters
// until it needs their slots, but its metrics page lists only adapters with requests.
type recentAdapters struct {
	ring atomic.Pointer[[16]atomic.Uint64] // hashes of adapter names
	next atomic.Uint32
}

func (r *recentAdapters) has(adapter uint64, slots int) bool {
	ring, next := r.ring.Load(), r.next.Load()
	if ring == nil {
		return false
	}
	for i := range uint32(min(slots, len(ring))) {
		if ring[(next-1-i)%uint32(len(ring))].Load() == adapter {
			return true
		}
	}
	return false
}

func (r *recentAdapters) add(adapter uint64, slots int) {
	if slots <= 0 || r.has(adapter, slots) {
		return
	}
	r.ring.CompareAndSwap(nil, new([16]atomic.Uint64))
	ring := r.ring.Load()
	ring[(r.next.Add(1)-1)%uint32(len(ring))].Store(adapter)
}

// HasAdapter reports whether the server probably still holds a LoRA adapter of an earlier pick.
// adapter is the hash of the adapter's name. slots is how many adapters the server can hold.
func (e *Endpoint) HasAdapter(adapter uint64, slots int) bool {
	return e.load.adapters.has(adapter, slots)
}

// AddAdapter records an adapter that a peer's pick made the server load.
func (l *Load) AddAdapter(adapter uint64, slots int) { l.adapters.add(adapter, slots) }
