package cache

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-project/penstock/xds/resource"
)

type record struct {
	slot        *Slot
	entry, prev *Entry // nil after a removal, or before the first version
}

func (r record) replaced() (bytes int) {
	if r.prev == nil {
		return 0
	}
	for _, p := range r.prev.Parts {
		if r.entry == nil || !slices.Contains(r.entry.Parts, p) {
			bytes += len(p.Body)
		}
	}
	return bytes
}

const types = resource.VirtualHost + 1

type log struct {
	config Config
	opened bool // guarded by Cache.mu
	ready  chan struct{}

	mu       sync.RWMutex
	slots    [types]map[string]*Slot
	byID     []*Slot // indexed by Slot.ID; nil if the slot was deleted
	revision uint64
	born     bool

	tail    []record
	floor   uint64
	bytes   int // size of the replaced bodies in tail
	cursors map[*Cursor]struct{}
	numbers uint64
	memo    *memo // the last coalesced result; guarded by memoMu
	// existing caches Cursor.Each; guarded by memoMu.
	existing [types]existing
	memoMu   sync.Mutex
}

type existing struct {
	seq   uint64
	slots []*Slot
}

type memo struct {
	from, to uint64
	changes  []Change
}

func newLog(c Config) *log {
	l := &log{config: c, ready: make(chan struct{}), cursors: map[*Cursor]struct{}{}}
	for t := range l.slots {
		l.slots[t] = map[string]*Slot{}
	}
	return l
}

// The caller holds Cache.mu.
func (l *log) open(cacheReady bool) {
	l.mu.RLock()
	born := l.born
	l.mu.RUnlock()
	if cacheReady && born && !l.opened {
		l.opened = true
		close(l.ready)
	}
}

// The caller holds l.mu.
func (l *log) seq() uint64 { return l.floor + uint64(len(l.tail)) }

// commit signals without the write lock, so that cursors can read at once.
func (l *log) commit(b Batch, now time.Time) {
	if !l.append(b, now) {
		return
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	for c := range l.cursors {
		c.Poke()
	}
}

func (l *log) append(b Batch, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.born, l.revision = true, b.Revision
	before := l.seq()
	commit := &Commit{now, b.Trace}
	upserted := make(map[resource.Ref]struct{}, len(b.Upserts))
	for _, r := range b.Upserts {
		upserted[r.Ref] = struct{}{}
	}
	for _, ref := range b.Removes {
		if _, repeated := upserted[ref]; repeated {
			continue
		}
		if s := l.slots[ref.Type][ref.Name]; s != nil && s.Current() != nil {
			l.put(s, nil)
		}
	}
	for _, r := range b.Upserts {
		s := l.slot(r.Ref)
		e := newEntry(r, s, l.seq()+1)
		e.Commit = commit
		if old := s.Current(); old != nil && old.Version == r.Version {
			e.Seq, e.Names, e.Commit = old.Seq, old.Names, old.Commit
			s.current.Store(e)
			continue
		}
		e.Names = make([]*Slot, len(r.Refs))
		for i, ref := range r.Refs {
			e.Names[i] = l.slot(ref)
		}
		l.put(s, e)
	}
	if l.seq() == before {
		return false
	}
	l.trim()
	return true
}

func (l *log) put(s *Slot, e *Entry) {
	old := s.Current()
	if e != nil {
		for _, n := range e.Names {
			n.named.Add(1)
		}
	}
	s.current.Store(e)
	r := record{slot: s, entry: e, prev: old}
	l.tail = append(l.tail, r)
	l.bytes += r.replaced()
	s.last = l.seq()
	if old != nil {
		for _, n := range old.Names {
			n.named.Add(-1)
			l.reap(n)
		}
	}
}

func (l *log) slot(ref resource.Ref) *Slot {
	s := l.slots[ref.Type][ref.Name]
	if s == nil {
		ref.Name = strings.Clone(ref.Name) // the name may be a part of a large message
		s = &Slot{Ref: ref, ID: uint32(len(l.byID))}
		l.slots[ref.Type][ref.Name] = s
		l.byID = append(l.byID, s)
	}
	return s
}

func (l *log) reap(s *Slot) {
	if l.byID[s.ID] == s && s.Current() == nil && s.named.Load() == 0 && s.users.Load() == 0 &&
		(s.last == 0 || s.last <= l.floor) {
		delete(l.slots[s.Type], s.Name)
		l.byID[s.ID] = nil
	}
}

const trimAt = 64

// A cursor that has not read dropped records gets a Delta.Reset.
func (l *log) trim() {
	if len(l.tail) < trimAt && l.bytes < l.config.LogBytes/4 {
		return
	}
	keep := l.seq()
	for c := range l.cursors {
		keep = min(keep, c.seq.Load())
	}
	n := int(max(keep, l.floor) - l.floor)
	if over := len(l.tail) - l.config.LogRecords; over > n {
		n = over
	}
	bytes := l.bytes
	for i, r := range l.tail {
		if i >= n && bytes <= l.config.LogBytes {
			break
		}
		bytes -= r.replaced()
		n = max(n, i+1)
	}
	dropped := l.tail[:n]
	l.tail = slices.Clone(l.tail[n:]) // a copy, to release the dropped records
	l.floor += uint64(n)
	l.bytes = bytes
	for _, r := range dropped {
		l.reap(r.slot)
	}
}

func (l *log) describe(g *Gateway) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	g.Revision, g.Sequence, g.Counts = l.revision, l.seq(), map[resource.Type]int{}
	for t := range l.slots {
		for _, s := range l.slots[t] {
			if s.Current() != nil {
				g.Counts[resource.Type(t)]++
			}
		}
	}
}
