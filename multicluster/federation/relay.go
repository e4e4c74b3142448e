package federation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/penstock-project/penstock/multicluster/channel"
)

// maxRelayed bounds what a hub has of a topic, of all members together, in bytes: a member receives it in one message. maxRelayedKeys bounds what it
// has of one member.
const (
	maxRelayed     = 48 << 20
	maxRelayedKeys = 50_000
)

// relay is what a hub has of one topic: of each member what it publishes, unchanged, with its name and "/" before the key.
type relay struct {
	topic *channel.Topic
	// exports: keys are those of the topic exports. Else they begin with the member that the item is for.
	exports bool
	// away: a member that is not connected publishes nothing.
	away bool

	mu    sync.RWMutex // the channel reads it with its own lock held
	of    map[string]*relayedMember
	bytes int
}

// relayedMember is what one member publishes.
type relayedMember struct {
	items map[string][]byte   // values by key, which the topic has too
	to    map[string][]string // of exports: the members that each is for
}

// size is how many bytes a member's item has; 0: there is none.
func (m *relayedMember) size(key string) int {
	if value, is := m.items[key]; is {
		return len(key) + len(value)
	}
	return 0
}

// hubUID is in the place of a cluster's UID in the state that a hub publishes of itself, for its bundle.
const hubUID = "hub"

// relayAll has a hub relay all topics.
func (f *Federation) relayAll() {
	f.own.uid = hubUID
	for _, t := range []*channel.Topic{f.exports, f.imports, f.wanted, f.loads} {
		r := &relay{topic: t, exports: t == f.exports, away: t == f.wanted || t == f.loads, of: map[string]*relayedMember{}}
		f.relays = append(f.relays, r)
		t.Visible(func(subscriber, key string) bool {
			member, _, ok := strings.Cut(key, "/")
			if !ok { // the hub's own state
				return key == stateKey && f.trust.has(subscriber)
			}
			return subscriber != member && f.trust.has(subscriber) && (f.trust.has(member) || f.audience.represents(member)) && r.shows(subscriber, key)
		})
		t.Subscribe(f.paced(func(_ context.Context, in channel.Update) error { return f.relay(r, in) }))
	}
}

// shows reports whether a member receives an item: that the hub is connected to another member, and what this one publishes for it.
func (r *relay) shows(subscriber, key string) bool {
	member, key, ok := strings.Cut(key, "/")
	switch {
	case !ok:
		return false
	case key == stateKey:
		return true
	case !r.exports:
		return strings.HasPrefix(key, subscriber+"/")
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	of := r.of[member]
	record, _ := parsePart(key)
	return of != nil && slices.Contains(of.to[record], subscriber)
}

// relay publishes what a member has published. One that is silent takes nothing back.
func (f *Federation) relay(r *relay, in channel.Update) error {
	f.mu.Lock()
	m, ok := f.members[in.Peer]
	f.mu.Unlock()
	switch {
	case !ok:
		return nil // it is none any more
	case in.Disconnected && r.away:
		r.drop(m.Name)
		return nil
	case in.Disconnected:
		if r.exports && f.cfg.Connected != nil {
			f.cfg.Connected(m.Name, false)
		}
		return nil
	}
	if r.exports {
		for _, it := range in.Items {
			if it.Key != stateKey {
				continue
			}
			if s, err := decodeCluster(it.Value); err == nil {
				f.trust.published(m.Name, []byte(s.Bundle))
			}
		}
	}
	err := f.pass(r, m.Name, in)
	if r.exports {
		f.forRepresented(m.Name, &in)
	}
	switch {
	case err != nil && f.cfg.Problem != nil:
		f.cfg.Problem(m.Name, fmt.Sprintf("%.500v", err))
	case err == nil && r.exports && f.cfg.Relayed != nil:
		f.cfg.Relayed(m.Name)
	}
	return err
}

// pass publishes what a member has published, or what is published for it.
func (f *Federation) pass(r *relay, member string, in channel.Update) error {
	items, gone, judge, err := r.take(member, in)
	// What is new comes first: it has the member's newest state, without which nothing is withdrawn.
	r.topic.Publish(items...)
	r.topic.Retract(gone...)
	if judge {
		r.topic.Judge()
	}
	if r.topic == f.imports {
		f.reported(items, gone)
	}
	return err
}

// take notes what a member has published. It returns what is to be published and retracted, and whether others may see more or less than before.
func (r *relay) take(member string, in channel.Update) (items []channel.Item, gone []string, judge bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.of[member]
	begins := of == nil
	if begins {
		of = &relayedMember{items: map[string][]byte{}, to: map[string][]string{}}
	}
	var problems channel.Problems
	named := map[string]bool{}
	put := func(it channel.Item) {
		more := len(it.Key) + len(it.Value) - of.size(it.Key)
		if _, is := of.items[it.Key]; !is && len(of.items) >= maxRelayedKeys || r.bytes+more > maxRelayed {
			problems.Add(fmt.Errorf("%.200q: the hub has no room for it", it.Key))
			return
		}
		r.bytes += more
		of.items[it.Key] = it.Value
		items = append(items, channel.Item{Key: member + "/" + it.Key, Value: it.Value, TTL: it.TTL})
	}
	for _, it := range in.Items {
		named[it.Key] = true
		switch record, whom := strings.CutSuffix(it.Key, audienceSuffix); {
		case !r.exports || !whom:
			if err := r.check(it); err != nil {
				problems.Add(fmt.Errorf("%.200q: %w", it.Key, err))
				continue
			}
			put(it)
		default:
			to, err := decodeAudience(record, it.Value)
			if err != nil {
				problems.Add(fmt.Errorf("%.200q: %w", it.Key, err))
				continue
			}
			if len(of.to) >= maxRelayedKeys && of.to[record] == nil {
				problems.Add(fmt.Errorf("%.200q: the hub has no room for it", it.Key))
				continue
			}
			judge = judge || !slices.Equal(of.to[record], to)
			of.to[record] = to
		}
	}
	drop := func(key string) {
		if record, whom := strings.CutSuffix(key, audienceSuffix); whom {
			judge = judge || of.to[record] != nil
			delete(of.to, record)
		} else if _, is := of.items[key]; is {
			r.bytes -= of.size(key)
			delete(of.items, key)
			gone = append(gone, member+"/"+key)
		}
	}
	for _, key := range in.Retracted {
		drop(key)
	}
	if in.Snapshot {
		for key := range of.items {
			if !named[key] && (key != stateKey || r.exports) {
				drop(key)
			}
		}
		for record := range of.to {
			if !named[audienceKey(record)] {
				drop(audienceKey(record))
			}
		}
	}
	_, stated := of.items[stateKey]
	switch {
	case stated:
	case !r.exports:
		put(channel.Item{Key: stateKey})
	default: // its records are of no use without
		for key := range of.items {
			drop(key)
		}
		delete(r.of, member)
		return nil, gone, false, errors.Join(problems.Err(), errors.New("it has not published its state"))
	}
	r.of[member] = of
	return items, gone, judge, problems.Err()
}

// check returns what is wrong with an item of a member, as far as a hub looks at it: its importers read it.
func (r *relay) check(it channel.Item) error {
	key, most := it.Key, maxLoad
	switch {
	case r.exports && key == stateKey:
		_, err := decodeCluster(it.Value)
		return err
	case r.exports:
		key, _ = parsePart(key)
		most = maxRecord
	default:
		_, key, _ = strings.Cut(key, "/")
	}
	if len(it.Value) > most {
		return fmt.Errorf("it has %d bytes, more than %d", len(it.Value), most)
	}
	_, err := parsePool(key)
	return err
}

// decodeAudience reads which members an export is for.
func decodeAudience(record string, value []byte) (to []string, err error) {
	if _, err := parsePool(record); err != nil {
		return nil, err
	}
	if len(value) > maxState {
		return nil, fmt.Errorf("it has %d bytes", len(value))
	}
	if err := json.Unmarshal(value, &to); err != nil {
		return nil, err
	}
	return to, nil
}

// drop retracts all that a member has published.
func (r *relay) drop(member string) {
	r.mu.Lock()
	var gone []string
	if of := r.of[member]; of != nil {
		for key := range of.items {
			r.bytes -= of.size(key)
			gone = append(gone, member+"/"+key)
		}
		delete(r.of, member)
	}
	r.mu.Unlock()
	r.topic.Retract(gone...)
}

// RelayedStatus is what a hub has of one of its members.
type RelayedStatus struct {
	Name string `json:"name"`
	// Connected: what it publishes arrives here. Exports is how many pools it exports to other members of the hub.
	Connected bool `json:"connected"`
	Exports   int  `json:"exports"`
}

// Relayed returns the members of a hub, sorted.
func (f *Federation) Relayed() []RelayedStatus {
	f.mu.Lock()
	members := maps.Clone(f.members)
	f.mu.Unlock()
	out := []RelayedStatus{}
	for address, m := range members {
		is := RelayedStatus{Name: m.Name, Connected: f.channel.Connected(address)}
		for _, r := range f.relays {
			r.mu.RLock()
			if of := r.of[m.Name]; of != nil {
				is.Exports += len(of.to) // of exports alone
			}
			r.mu.RUnlock()
		}
		out = append(out, is)
	}
	slices.SortFunc(out, func(a, b RelayedStatus) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// dropRelays retracts what clusters have published that are no members of a hub any more.
func (f *Federation) dropRelays(members []Member) {
	for _, r := range f.relays {
		r.mu.RLock()
		var gone []string
		for name := range r.of {
			if !slices.ContainsFunc(members, func(m Member) bool { return m.Name == name }) {
				gone = append(gone, name)
			}
		}
		r.mu.RUnlock()
		for _, name := range gone {
			r.drop(name)
		}
	}
}
