package channel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// Item is one published value.
type Item struct {
	Key   string
	Value []byte
	// TTL is how long the item lasts after its last publication. 0: until it is retracted.
	TTL time.Duration
}

// Update reports changes of one peer's items on a topic, or that the peer disconnected.
type Update struct {
	// Peer is the address of the process.
	Peer string
	// Snapshot means that Items has all of the peer's items.
	Snapshot bool
	// Disconnected means that the connection is lost, or that SetPeers removed the peer. All fields
	// except Peer and Disconnected are then unset.
	Disconnected bool
	Items        []Item
	Retracted    []string // keys
	// Dropped describes the items that were dropped: undecodable items, and items whose keys
	// Topic.Keys rejects. nil: none was dropped.
	Dropped error
}

// Topic publishes this process's items of one kind, and delivers the peers' items of that kind. It
// is safe for concurrent use.
type Topic struct {
	channel *Channel
	name    string

	// The following fields are set before Channel.Run.
	handlers []func(context.Context, Update) error
	snapshot func() []Item
	visible  func(subscriber, key string) bool // nil: all items are visible
	receiver func(key string) string           // nil: an item may have several receivers
	keys     func(key string) error            // nil: all keys are valid
	resumes  bool
	run      []func(context.Context)

	subscribed atomic.Int64

	// Guarded by Channel.mu.
	seq   uint64
	items map[string]published
	edits []edit
	// forgotten is seq at the newest dropped edit. judged is seq at the last call of Judge.
	forgotten, judged uint64
	swept             int
	changed           chan struct{}
}

type published struct {
	value   []byte
	expires time.Time // zero: never
	seq     uint64
	version string // digest of the value, only in topics that resume
}

func (p published) expired(now time.Time) bool { return !p.expires.IsZero() && !p.expires.After(now) }

// Topic finds or makes a topic. Call it before Run and Register.
func (c *Channel) Topic(name string) *Topic {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.topics[name]
	if t == nil {
		t = &Topic{channel: c, name: name, items: map[string]published{}, changed: make(chan struct{})}
		c.topics[name] = t
	}
	return t
}

// Subscribe makes the channel call handle with every Update of a peer, one call at a time per peer.
// The update is acknowledged afterwards, and errors are logged. Call Subscribe before Run.
func (t *Topic) Subscribe(handle func(ctx context.Context, u Update) error) {
	t.handlers = append(t.handlers, handle)
}

// Snapshot makes the channel call make when another process subscribes. The first response then
// also has these items. make may publish. Call Snapshot before Run.
func (t *Topic) Snapshot(make func() []Item) { t.snapshot = make }

// Visible sets a filter: show reports whether a subscriber, named by Config.Identify, may receive
// an item. Call it before Run.
func (t *Topic) Visible(show func(subscriber, key string) bool) { t.visible = show }

// Addressed declares that Visible shows each item only to the subscriber with the name to(key).
// Call it before Run.
func (t *Topic) Addressed(to func(key string) string) { t.receiver = to }

// Keys sets the check of the keys of peers' items. Items with invalid keys are dropped. Call Keys
// before Run.
func (t *Topic) Keys(check func(key string) error) { t.keys = check }

func (t *Topic) drop(r *response, problems *Problems) (dropped bool) {
	if t.keys == nil {
		return false
	}
	invalid := func(key string) bool {
		err := t.keys(key)
		if err != nil {
			dropped = true
			problems.Addf("%.500v", err) // as text, because a stored error would keep the key in memory
		}
		return err != nil
	}
	r.Resources = slices.DeleteFunc(r.GetResources(), func(res *discoveryv3.Resource) bool {
		return invalid(res.GetName())
	})
	r.RemovedResources = slices.DeleteFunc(r.GetRemovedResources(), invalid)
	return dropped
}

// Resume makes a subscriber that reconnects receive changes instead of a snapshot. Publisher and
// subscriber call it before Run.
func (t *Topic) Resume() { t.resumes = true }

// A handler returns ErrSendAgain to receive all items of the peer again, on a new stream.
var ErrSendAgain = errors.New("the peer is asked for all that it publishes")

func (t *Topic) shows(s *subscriber, key string) bool {
	return t.visible == nil || t.visible(s.name, key)
}

// Subscribed reports whether another process subscribes to the topic.
func (t *Topic) Subscribed() bool { return t.subscribed.Load() > 0 }

// Subscribers returns how many other processes subscribe to the topic.
func (t *Topic) Subscribers() int { return int(t.subscribed.Load()) }

func (t *Topic) deliver(ctx context.Context, u Update) error {
	var errs []error
	for _, handle := range t.handlers {
		errs = append(errs, handle(ctx, u))
	}
	return errors.Join(errs...)
}

// Publish sends items to every subscriber, present and future. Publishing a key again restarts its
// TTL.
func (t *Topic) Publish(items ...Item) {
	t.channel.mu.Lock()
	defer t.channel.mu.Unlock()
	now, before := time.Now(), t.seq
	for _, it := range items {
		t.seq++
		next := published{value: it.Value, seq: t.seq}
		if t.resumes {
			sum := sha256.Sum256(it.Value)
			next.version = hex.EncodeToString(sum[:8])
		}
		if it.TTL > 0 {
			next.expires = now.Add(it.TTL)
		}
		t.items[it.Key] = next
		t.note(it.Key)
	}
	t.sweep(now)
	if t.seq > before {
		t.flush(before)
	}
}

// The caller holds Channel.mu.
func (t *Topic) sweep(now time.Time) {
	if len(t.items) < 2*t.swept+16 {
		return
	}
	t.seq++
	for key, it := range t.items {
		if it.expired(now) {
			delete(t.items, key)
			t.note(key)
		}
	}
	t.swept = len(t.items)
}

// Retract retracts items.
func (t *Topic) Retract(keys ...string) {
	t.channel.mu.Lock()
	defer t.channel.mu.Unlock()
	before := t.seq
	for _, key := range keys {
		if _, ok := t.items[key]; ok {
			delete(t.items, key)
			t.seq++
			t.note(key)
		}
	}
	if t.seq > before {
		t.flush(before)
	}
}

// Acknowledged waits until all publications so far are in effect at every subscriber and connected
// peer, or ctx ends. It waits at most Config.AckTimeout for one response.
func (t *Topic) Acknowledged(ctx context.Context) error {
	c := t.channel
	c.mu.Lock()
	target, began := t.seq, time.Now()
	c.mu.Unlock()
	for {
		c.mu.Lock()
		left := t.behind(target, began, time.Now())
		changed := t.changed
		c.mu.Unlock()
		if left <= 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for peers to acknowledge %s: %w", t.name, ctx.Err())
		case <-changed:
		case <-time.After(left):
		}
	}
}

// Published returns the number of publications so far, for AcknowledgedBy.
func (t *Topic) Published() uint64 {
	t.channel.mu.Lock()
	defer t.channel.mu.Unlock()
	return t.seq
}

// AcknowledgedBy reports whether the publications up to number published are in effect at every
// subscriber with the name; false without one. changed closes when the result may have changed.
func (t *Topic) AcknowledgedBy(name string, published uint64) (acknowledged bool, changed <-chan struct{}) {
	t.channel.mu.Lock()
	defer t.channel.mu.Unlock()
	for s := range t.channel.subscribers {
		sub := s.topics[t.name]
		if s.name != name || sub == nil {
			continue
		}
		if acknowledged = sub.acked >= published; !acknowledged {
			break
		}
	}
	return acknowledged, t.changed
}

// behind returns how long Acknowledged still waits for publication number target; 0 or less: the
// wait is over. The caller holds Channel.mu.
func (t *Topic) behind(target uint64, began, now time.Time) (left time.Duration) {
	subscribed := map[string]bool{}
	for s := range t.channel.subscribers {
		sub := s.topics[t.name]
		if sub == nil {
			continue
		}
		if subscribed[s.id] = true; sub.acked >= target {
			continue
		}
		since := began
		if sub.inFlight {
			since = sub.sentAt
		}
		left = max(left, t.channel.cfg.AckTimeout-now.Sub(since))
	}
	for _, p := range t.channel.peers {
		if p.synced[t.name] && !subscribed[p.id] {
			left = max(left, t.channel.cfg.AckTimeout-now.Sub(began))
		}
	}
	return left
}

// The caller holds Channel.mu.
func (t *Topic) notify() {
	close(t.changed)
	t.changed = make(chan struct{})
}
