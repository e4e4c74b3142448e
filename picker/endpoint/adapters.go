package endpoint

import "sync/atomic"

// recentAdapters holds the LoRA adapters that picks made a server load. Metrics pages list only
// adapters with requests, but a server keeps other adapters until it needs their slots.
type recentAdapters struct {
	ring [16]atomic.Uint64 // hashes, in load order
	next atomic.Uint32
}

func (r *recentAdapters) has(adapter uint64, slots int) bool {
	next := r.next.Load()
	for i := range uint32(min(slots, len(r.ring))) {
		if r.ring[(next-1-i)%uint32(len(r.ring))].Load() == adapter {
			return true
		}
	}
	return false
}

func (r *recentAdapters) add(adapter uint64, slots int) {
	if slots > 0 && !r.has(adapter, slots) {
		r.ring[(r.next.Add(1)-1)%uint32(len(r.ring))].Store(adapter)
	}
}

// HasAdapter reports whether e's server still holds a LoRA adapter that an earlier pick made it
// load. adapter is the hash of its name; slots is the number of adapters that the server can hold.
func (e *Endpoint) HasAdapter(adapter uint64, slots int) bool {
	return e.load.adapters.has(adapter, slots)
}

// AddAdapter records an adapter that a peer's pick made the server load.
func (l *Load) AddAdapter(adapter uint64, slots int) { l.adapters.add(adapter, slots) }
