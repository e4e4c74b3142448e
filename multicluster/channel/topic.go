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
	// TTL is how long the item holds from its last publication on. 0: until it is retracted.
	TTL time.Duration
}

// Update is what one peer published on a topic, or that the peer is disconnected.
type Update struct {
	// Peer is the address of the process.
	Peer string
	// Snapshot: Items are all that the peer publishes. Items of an earlier connection that are not
	// among them are retracted.
	Snapshot bool
	// Disconnected: the connection is lost, or the address is no peer's any more. The other fields
	// are empty.
	Disconnected bool
	// Items are new or published again; Retracted are keys.
	Items     []Item
	Retracted []string
	// Dropped describes items that are left out, because they or their keys are invalid
	// (Topic.Keys); nil: none is.
	Dropped error
}

// Topic is one kind of items, published by this process and by its peers. It is safe for concurrent
// use.
type Topic struct {
	channel *Channel
	name    string

	// Set before Channel.Run.
	handlers []func(context.Context, Update) error
	snapshot func() []Item                     // nil: none
	visible  func(subscriber, key string) bool // nil: all items are
	keys     func(key string) error            // nil: all keys are valid
	resumes  bool
	run      []func(context.Context) // what Mirrors run beside the channel

	subscribed atomic.Int64 // processes other than this one

	// Guarded by Channel.mu.
	seq   uint64 // counts publications
	items map[string]published
	edits []edit // in their order
	// forgotten is the newest publication whose edit may have been dropped, judged the one at which
	// Visible was to be called again for all.
	forgotten, judged uint64
	swept             int           // number of items after the last sweep
	changed           chan struct{} // closed and replaced when a subscriber has acknowledged, or is gone
}

// published is an item of this process.
type published struct {
	value   []byte
	expires time.Time // zero: never
	seq     uint64
	version string // a digest of value, in topics that resume
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

// Subscribe has handle called with every Update of a peer, one call at a time per peer. It returns
// when the update is in effect here, which this process then acknowledges to the peer. An error is
// logged; the update is not delivered again. Call Subscribe before Run.
func (t *Topic) Subscribe(handle func(ctx context.Context, u Update) error) {
	t.handlers = append(t.handlers, handle)
}

// Snapshot has make called when another process subscribes. Its first response has the items that
// make returns, besides those that are published: so what is published needs no longer to stay than
// for the processes that are connected. make may publish. Call Snapshot before Run.
func (t *Topic) Snapshot(make func() []Item) { t.snapshot = make }

// Visible has is decide which items a subscriber may receive, by the name that Config.Identify gave
// the subscriber and by the item's key. is is called when the item is published, and for all items
// when a subscriber connects and after Judge: an item that is no longer visible is retracted there
// then, and one that has become visible is sent. Call Visible before Run.
func (t *Topic) Visible(is func(subscriber, key string) bool) { t.visible = is }

// Keys sets the check of keys: check is called with the key of each item and retraction as a
// message of a peer arrives. An item with an error is dropped before the next message is read. Call
// Keys before Run.
func (t *Topic) Keys(check func(key string) error) { t.keys = check }

// drop removes what has an invalid key from a message, and reports whether there was any.
func (t *Topic) drop(r *response, problems *Problems) (dropped bool) {
	if t.keys == nil {
		return false
	}
	invalid := func(key string) bool {
		err := t.keys(key)
		if err != nil {
			dropped = true
			problems.Addf("%.500v", err) // no error that is kept has the key, which may be long
		}
		return err != nil
	}
	r.Resources = slices.DeleteFunc(r.GetResources(), func(is *discoveryv3.Resource) bool {
		return invalid(is.GetName())
	})
	r.RemovedResources = slices.DeleteFunc(r.GetRemovedResources(), invalid)
	return dropped
}

// Resume has a subscriber that connects again be sent what has changed meanwhile, in place of a
// snapshot: it names the version of each item that it has. The handlers of such a topic keep what a
// disconnected peer has published. Both ends call Resume, before Run.
func (t *Topic) Resume() { t.resumes = true }

// ErrSendAgain is an error of a handler that could not take an update over and needs all that the
// peer publishes: the channel connects again, and gets a snapshot.
var ErrSendAgain = errors.New("the peer is asked for all that it publishes")

func (t *Topic) shows(s *subscriber, key string) bool {
	return t.visible == nil || t.visible(s.name, key)
}

// Subscribed reports whether another process subscribes. One that does so later gets a snapshot.
func (t *Topic) Subscribed() bool { return t.subscribed.Load() > 0 }

// Subscribers returns how many other processes subscribe.
func (t *Topic) Subscribers() int { return int(t.subscribed.Load()) }

func (t *Topic) deliver(ctx context.Context, u Update) error {
	var errs []error
	for _, handle := range t.handlers {
		errs = append(errs, handle(ctx, u))
	}
	return errors.Join(errs...)
}

// Publish sends items to every subscriber, present and future. An item that was published before
// replaces its value and restarts its TTL.
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

// sweep drops expired items once there are twice as many as after the last sweep. Channel.mu is
// held.
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

// Retract takes items back.
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

// Acknowledged returns when everything published until now is in effect at every subscriber and
// every connected peer, those that exceed Config.AckTimeout excepted, or with the context's error.
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
		timeout := time.NewTimer(left)
		select {
		case <-ctx.Done():
			timeout.Stop()
			return fmt.Errorf("wait for peers to acknowledge %s: %w", t.name, ctx.Err())
		case <-changed:
		case <-timeout.C:
		}
		timeout.Stop()
	}
}

// Published returns how much was published until now, for AcknowledgedBy.
func (t *Topic) Published() uint64 {
	t.channel.mu.Lock()
	defer t.channel.mu.Unlock()
	return t.seq
}

// AcknowledgedBy reports whether what was published until a call of Published is in effect at every
// process that subscribes by a name of Config.Identify, and there is one. changed is closed when
// that may be otherwise.
func (t *Topic) AcknowledgedBy(name string, published uint64) (is bool, changed <-chan struct{}) {
	t.channel.mu.Lock()
	defer t.channel.mu.Unlock()
	for s := range t.channel.subscribers {
		sub := s.topics[t.name]
		if s.name != name || sub == nil {
			continue
		}
		if is = sub.acked >= published; !is {
			break
		}
	}
	return is, t.changed
}

// behind is the time left until the last process that has not acknowledged a target exceeds the
// timeout; 0: there is none. Channel.mu is held.
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
		if p.synced[t.name] && !subscribed[p.id] { // it is connected, and about to subscribe
			left = max(left, t.channel.cfg.AckTimeout-now.Sub(began))
		}
	}
	return left
}

// notify ends every wait for subscribers. Channel.mu is held.
func (t *Topic) notify() {
	close(t.changed)
	t.changed = make(chan struct{})
}
