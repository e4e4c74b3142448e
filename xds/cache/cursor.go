package cache

import (
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/penstock-project/penstock/xds/resource"
)

// Change is the net change of a resource since a cursor's last Pull.
type Change struct {
	Slot  *Slot
	Entry *Entry // nil if the resource was removed
	// Prev is the version at the last Pull. It is nil if there was no version, and after a Reset.
	Prev *Entry
}

// Delta contains the changes since a cursor's last Pull.
type Delta struct {
	// Changes must not be modified: cursors share it.
	Changes []Change
	// Reset means that the log has dropped unread records. Changes then lacks removed resources;
	// Slot.Current is nil for them.
	Reset bool
}

// Cursor is a reader's position in a log. It is safe for concurrent use only where a method states
// it.
type Cursor struct {
	// Number counts the cursors of a log, from 1.
	Number uint64
	log    *log
	seq    atomic.Uint64
	signal chan struct{}
}

func (l *log) cursor() *Cursor {
	c := &Cursor{log: l, signal: make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.numbers++
	c.Number = l.numbers
	c.seq.Store(l.seq())
	l.cursors[c] = struct{}{}
	return c
}

// Close ends the cursor and releases the slots with the acquired IDs.
func (c *Cursor) Close(acquired ...iter.Seq[uint32]) {
	l := c.log
	var last []*Slot
	l.reading(func() {
		for _, ids := range acquired {
			for id := range ids {
				last = released(last, l.byID[id])
			}
		}
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range last {
		l.reap(s)
	}
	delete(l.cursors, c)
}

// Ready returns a channel that closes once the log may be read. Safe for concurrent use.
func (c *Cursor) Ready() <-chan struct{} { return c.log.ready }

// Signal returns a channel that receives when a Pull may return changes. Safe for concurrent use.
func (c *Cursor) Signal() <-chan struct{} { return c.signal }

// Poke sends to the channel of Signal. Safe for concurrent use.
func (c *Cursor) Poke() {
	select {
	case c.signal <- struct{}{}:
	default:
	}
}

// Skip moves the cursor to the end of the log.
func (c *Cursor) Skip() {
	c.log.mu.RLock()
	defer c.log.mu.RUnlock()
	c.seq.Store(c.log.seq())
}

// Seq returns the sequence number up to which the cursor has pulled.
func (c *Cursor) Seq() uint64 { return c.seq.Load() }

// Pull returns the changes since the last Pull.
func (c *Cursor) Pull() Delta {
	l := c.log
	l.mu.RLock()
	defer l.mu.RUnlock()
	from, to := c.seq.Load(), l.seq()
	c.seq.Store(to)
	switch {
	case from == to:
		return Delta{}
	case from < l.floor:
		return Delta{Changes: l.since(from), Reset: true}
	}
	return Delta{Changes: l.coalesced(from, to)}
}

// coalesced caches its last result, because most cursors read the same range. The caller holds
// l.mu.
func (l *log) coalesced(from, to uint64) []Change {
	l.memoMu.Lock()
	defer l.memoMu.Unlock()
	if m := l.memo; m != nil && m.from == from && m.to == to {
		return m.changes
	}
	records := l.tail[from-l.floor:]
	changes := make([]Change, 0, len(records))
	at := make(map[*Slot]int, len(records))
	for _, r := range records {
		if i, ok := at[r.slot]; ok {
			changes[i].Entry = r.entry
			continue
		}
		at[r.slot] = len(changes)
		changes = append(changes, Change{Slot: r.slot, Entry: r.entry, Prev: r.prev})
	}
	l.memo = &memo{from: from, to: to, changes: changes}
	return changes
}

func (l *log) since(from uint64) []Change {
	var out []Change
	for _, s := range l.byID {
		if s == nil {
			continue
		}
		if e := s.Current(); e != nil && e.Seq > from {
			out = append(out, Change{Slot: s, Entry: e})
		}
	}
	return out
}

// Acquire finds or creates a name's slot and keeps it until Release. Safe for concurrent use.
func (c *Cursor) Acquire(t resource.Type, name string) *Slot {
	l := c.log
	l.mu.RLock()
	if s := l.slots[t][name]; s != nil {
		s.users.Add(1)
		l.mu.RUnlock()
		return s
	}
	l.mu.RUnlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.slot(resource.Ref{Type: t, Name: name})
	s.users.Add(1)
	return s
}

// AcquireAll is Acquire for many names. It reads names at most twice. Safe for concurrent use.
func (c *Cursor) AcquireAll(t resource.Type, names iter.Seq[string]) (slots []*Slot) {
	l := c.log
	missing := false
	l.reading(func() {
		for name := range names {
			s := l.slots[t][name]
			if s != nil {
				s.users.Add(1)
			}
			missing = missing || s == nil
			slots = append(slots, s)
		}
	})
	if !missing {
		return slots
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i := 0
	for name := range names {
		if slots[i] == nil {
			slots[i] = l.slot(resource.Ref{Type: t, Name: name})
			slots[i].users.Add(1)
		}
		i++
	}
	return slots
}

// Initial is one entry of initial_resource_versions.
type Initial struct {
	Slot    *Slot
	Version string
}

// AcquireInitial acquires names of initial_resource_versions. `current` has the names with the
// current version, unless it changed since the last Pull. `others` has the rest. Safe for
// concurrent use.
func (c *Cursor) AcquireInitial(t resource.Type, initial iter.Seq2[string, string]) (current []*Slot,
	others []Initial) {
	l := c.log
	missing := false
	l.reading(func() {
		for name, version := range initial {
			s := l.slots[t][name]
			if s == nil {
				missing = true
				continue
			}
			s.users.Add(1)
			if e := s.Current(); e != nil && e.Version == version && e.Seq <= c.Seq() {
				current = append(current, s)
			} else {
				others = append(others, Initial{Slot: s, Version: version})
			}
		}
	})
	if !missing {
		return current, others
	}
	found := make(map[*Slot]bool, len(current)+len(others))
	for _, s := range current {
		found[s] = true
	}
	for _, o := range others {
		found[o.Slot] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, version := range initial {
		if s := l.slot(resource.Ref{Type: t, Name: name}); !found[s] {
			s.users.Add(1)
			others = append(others, Initial{Slot: s, Version: version})
		}
	}
	return current, others
}

// Hold acquires s, or the name's new slot if the log has deleted s. Safe for concurrent use.
func (c *Cursor) Hold(s *Slot) *Slot {
	l := c.log
	l.mu.RLock()
	if l.byID[s.ID] == s {
		s.users.Add(1)
		l.mu.RUnlock()
		return s
	}
	l.mu.RUnlock()
	return c.Acquire(s.Type, s.Name)
}

// Release undoes Acquire and Hold. Safe for concurrent use.
func (c *Cursor) Release(slots ...*Slot) {
	if len(slots) == 0 {
		return
	}
	l := c.log
	last := slots[:0:0]
	l.reading(func() {
		for _, s := range slots {
			last = released(last, s)
		}
	})
	if len(last) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range last {
		l.reap(s)
	}
}

func released(last []*Slot, s *Slot) []*Slot {
	if s.users.Add(-1) == 0 && s.Current() == nil {
		last = append(last, s)
	}
	return last
}

// reading releases l.mu even if f panics on a proxy's message.
func (l *log) reading(f func()) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	f()
}

// Each returns every existing resource of a type, sorted by name. The result must not be modified.
func (c *Cursor) Each(t resource.Type) []*Slot {
	l := c.log
	l.mu.RLock()
	defer l.mu.RUnlock()
	l.memoMu.Lock()
	defer l.memoMu.Unlock()
	m := &l.existing[t]
	if m.seq == l.seq() && m.slots != nil {
		return m.slots
	}
	m.seq, m.slots = l.seq(), []*Slot{}
	for _, s := range l.slots[t] {
		if s.Current() != nil {
			m.slots = append(m.slots, s)
		}
	}
	slices.SortFunc(m.slots, func(a, b *Slot) int { return strings.Compare(a.Name, b.Name) })
	return m.slots
}

// Slot returns an acquired slot by its ID.
func (c *Cursor) Slot(id uint32) *Slot {
	c.log.mu.RLock()
	defer c.log.mu.RUnlock()
	return c.log.byID[id]
}
