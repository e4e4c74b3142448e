package channel

import (
	"context"
	"iter"
	"maps"
	"sync"
	"time"
)

// MirrorConfig configures a Mirror.
type MirrorConfig[T any] struct {
	// Decode decodes an item. Items with an error are skipped and logged.
	Decode func(value []byte) (T, error)
	// Retention is how long values outlive the peer's connection, unless the peer publishes or
	// retracts them. 0: they are removed at once.
	Retention time.Duration
	// Changed, if set, receives the changes of one update or expiry, before the update is
	// acknowledged. Calls do not overlap. Changed may read the mirror.
	Changed func(changes []Change[T])
}

// Change is one value that was added, replaced or removed.
type Change[T any] struct {
	Peer, Key string
	Value     T
	Gone      bool
	// Before is the value that Value replaces; zero if New.
	Before T
	New    bool
}

// Mirror holds the decoded items of peers on a topic: peer -> key -> value. It is safe for
// concurrent use.
type Mirror[T any] struct {
	cfg MirrorConfig[T]

	order sync.Mutex // held from a change until Changed returns; taken before mu
	mu    sync.RWMutex
	peers map[string]map[string]mirrored[T]
	timer chan struct{}
}

type mirrored[T any] struct {
	value T
	// until is when a stale value expires: its peer is disconnected, or has not published it again.
	// Zero: the value is not stale.
	until time.Time
}

// NewMirror subscribes to a topic. Call it before Channel.Run.
func NewMirror[T any](t *Topic, cfg MirrorConfig[T]) *Mirror[T] {
	m := &Mirror[T]{cfg: cfg, peers: map[string]map[string]mirrored[T]{}, timer: make(chan struct{}, 1)}
	t.Subscribe(m.receive)
	if cfg.Retention > 0 {
		t.run = append(t.run, m.expire)
	}
	return m
}

// Get returns the value that a peer published for a key.
func (m *Mirror[T]) Get(peer, key string) (value T, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	v, ok := m.peers[peer][key]
	return v.value, ok
}

// ByKey returns the values of a key, by the address of the peer.
func (m *Mirror[T]) ByKey(key string) map[string]T {
	m.mu.RLock()
	defer m.mu.RUnlock()
	out := map[string]T{}
	for peer, values := range m.peers {
		if v, ok := values[key]; ok {
			out[peer] = v.value
		}
	}
	return out
}

// Values iterates over all peers' values. The loop must not call the mirror.
func (m *Mirror[T]) Values() iter.Seq[T] {
	return func(yield func(T) bool) {
		m.mu.RLock()
		defer m.mu.RUnlock()
		for _, values := range m.peers {
			for _, v := range values {
				if !yield(v.value) {
					return
				}
			}
		}
	}
}

// DropStale drops the values of a key whose peers are disconnected, or have not published the key
// again since they reconnected.
func (m *Mirror[T]) DropStale(key string) {
	m.change(func() (changes []Change[T]) {
		for peer, values := range m.peers {
			if v, ok := values[key]; ok && !v.until.IsZero() {
				changes = append(changes, m.drop(peer, key))
			}
		}
		return changes
	})
}

func (m *Mirror[T]) change(do func() []Change[T]) {
	m.order.Lock()
	defer m.order.Unlock()
	m.mu.Lock()
	changes := do()
	m.mu.Unlock()
	if len(changes) > 0 && m.cfg.Changed != nil {
		m.cfg.Changed(changes)
	}
}

// The caller holds mu.
func (m *Mirror[T]) drop(peer, key string) Change[T] {
	c := Change[T]{Peer: peer, Key: key, Value: m.peers[peer][key].value, Gone: true}
	delete(m.peers[peer], key)
	if len(m.peers[peer]) == 0 {
		delete(m.peers, peer)
	}
	return c
}

func (m *Mirror[T]) receive(_ context.Context, u Update) error {
	var problems Problems
	m.change(func() (changes []Change[T]) {
		if u.Disconnected {
			return m.disconnect(u.Peer)
		}
		published := map[string]bool{}
		for _, it := range u.Items {
			published[it.Key] = true
			value, bad := m.cfg.Decode(it.Value)
			if bad != nil {
				problems.Addf("%.200q: %w", it.Key, bad)
				continue
			}
			if m.peers[u.Peer] == nil {
				m.peers[u.Peer] = map[string]mirrored[T]{}
			}
			before, known := m.peers[u.Peer][it.Key]
			m.peers[u.Peer][it.Key] = mirrored[T]{value: value}
			changes = append(changes,
				Change[T]{Peer: u.Peer, Key: it.Key, Value: value, Before: before.value, New: !known})
		}
		gone := u.Retracted
		// with a retention, values that the snapshot lacks stay until they expire
		if u.Snapshot && m.cfg.Retention == 0 {
			for key := range m.peers[u.Peer] {
				if !published[key] {
					gone = append(gone, key)
				}
			}
		}
		for _, key := range gone {
			if _, ok := m.peers[u.Peer][key]; ok {
				changes = append(changes, m.drop(u.Peer, key))
			}
		}
		return changes
	})
	return problems.Err()
}

// The caller holds mu.
func (m *Mirror[T]) disconnect(peer string) (changes []Change[T]) {
	if m.cfg.Retention == 0 {
		for key := range maps.Clone(m.peers[peer]) {
			changes = append(changes, m.drop(peer, key))
		}
		return changes
	}
	until := time.Now().Add(m.cfg.Retention)
	for key, v := range m.peers[peer] {
		if v.until.IsZero() {
			m.peers[peer][key] = mirrored[T]{v.value, until}
		}
	}
	flush(m.timer)
	return nil
}

func (m *Mirror[T]) expire(ctx context.Context) {
	for {
		next := time.Hour
		m.change(func() (changes []Change[T]) {
			now := time.Now()
			for peer, values := range maps.Clone(m.peers) {
				for key, v := range maps.Clone(values) {
					switch left := v.until.Sub(now); {
					case v.until.IsZero():
					case left > 0:
						next = min(next, left)
					default:
						changes = append(changes, m.drop(peer, key))
					}
				}
			}
			return changes
		})
		select {
		case <-ctx.Done():
			return
		case <-m.timer:
		case <-time.After(next):
		}
	}
}
