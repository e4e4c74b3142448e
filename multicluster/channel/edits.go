package channel

import (
	"slices"
	"sort"
	"time"

	"github.com/penstock-project/penstock/multicluster/fault"
)

type edit struct {
	seq uint64
	key string
}

const keptEdits = 256

// note records that the item of a key changed. It drops old edits if there are many: a subscriber
// that needs them receives a comparison of all items (walk.all). The caller holds Channel.mu.
func (t *Topic) note(key string) {
	t.edits = append(t.edits, edit{t.seq, key})
	if len(t.edits) > 2*len(t.items)+keptEdits {
		half := len(t.edits) / 2
		t.forgotten = t.edits[half-1].seq
		t.edits = slices.Clone(t.edits[half:])
	}
}

// since returns the edits with numbers above seq; false if some were dropped, or if Judge was
// called after seq. The caller holds Channel.mu.
func (t *Topic) since(seq uint64) (edits []edit, ok bool) {
	if seq < t.forgotten || seq < t.judged {
		return nil, false
	}
	return t.edits[sort.Search(len(t.edits), func(i int) bool { return t.edits[i].seq > seq }):], true
}

// Judge applies Topic.Visible to all items again: it sends newly visible items and retracts hidden
// ones.
func (t *Topic) Judge() {
	t.channel.mu.Lock()
	defer t.channel.mu.Unlock()
	t.seq++
	t.judged = t.seq
	for s := range t.channel.subscribers {
		s.flush()
	}
}

// The caller holds Channel.mu.
func (t *Topic) flush(before uint64) {
	edits, all := t.since(before)
	concerns, passed := t.concerned(edits), false
	for s := range t.channel.subscribers {
		sub := s.topics[t.name]
		switch {
		case sub == nil:
		case t.visible == nil, !all, !sub.begun, sub.busy(), sub.sent != before, concerns(s, sub):
			s.flush()
		default:
			sub.sent, sub.acked, passed = t.seq, t.seq, true
		}
	}
	if passed {
		t.notify()
	}
}

// The caller holds Channel.mu.
func (t *Topic) concerned(edits []edit) func(*subscriber, *subscription) bool {
	if t.receiver == nil {
		return func(s *subscriber, sub *subscription) bool {
			return slices.ContainsFunc(edits, func(e edit) bool { return sub.known[e.key] || t.shows(s, e.key) })
		}
	}
	names := map[string]bool{}
	for _, e := range edits {
		names[t.receiver(e.key)] = true
	}
	return func(s *subscriber, _ *subscription) bool { return names[s.name] }
}

// A walk collects one response. Channel.mu is held throughout.
type walk struct {
	topic *Topic
	to    *subscriber
	sub   *subscription
	now   time.Time
	out   *response
}

func (w *walk) put(key string, it published) {
	version, ok := w.sub.has[key]
	if it.expired(w.now) || ok && (version == it.version || fault.Injected("resumption")) {
		return
	}
	w.out.Resources = append(w.out.Resources, it.encode(key, w.now))
	w.sub.known[key] = true
}

func (w *walk) remove(key string) {
	if w.sub.known[key] {
		w.out.RemovedResources = append(w.out.RemovedResources, key)
		delete(w.sub.known, key)
	}
}

func (w *walk) edited(edits []edit) {
	for _, e := range edits {
		if to := w.topic.receiver; to != nil && to(e.key) != w.to.name {
			continue
		}
		switch it, ok := w.topic.items[e.key]; {
		case ok && it.seq != e.seq: // a later edit of the same key follows in the list
		case ok && w.topic.shows(w.to, e.key):
			w.put(e.key, it)
		default:
			w.remove(e.key)
		}
	}
}

func (w *walk) all() {
	for key, it := range w.topic.items {
		// an item that was published before the last response may have become visible since then
		sent := it.seq <= w.sub.sent && w.sub.begun && (w.topic.visible == nil || w.sub.known[key])
		if !sent && w.topic.shows(w.to, key) {
			w.put(key, it)
		}
	}
	for key := range w.sub.known {
		if _, ok := w.topic.items[key]; !ok || !w.topic.shows(w.to, key) {
			w.remove(key)
		}
	}
}
