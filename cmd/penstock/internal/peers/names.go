package peers

import (
	"slices"
	"sync"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/channel"
)

// Names exchanges a digest of the endpoints that each picker names, by pool. Envoy may drop an
// endpoint only once no picker names it.
type Names struct {
	topic     *channel.Topic
	elsewhere *channel.Mirror[string]
	changed   chan struct{}

	mu   sync.Mutex
	late map[string]bool // peers that exceeded a deadline and have published nothing since
}

// NewNames makes a Names.
func NewNames(c *channel.Channel) *Names {
	n := &Names{topic: c.Topic("names"), changed: make(chan struct{}, 1), late: map[string]bool{}}
	n.elsewhere = channel.NewMirror(n.topic, channel.MirrorConfig[string]{
		Decode:  func(value []byte) (string, error) { return string(value), nil },
		Changed: n.receive,
	})
	return n
}

func (n *Names) receive(changes []channel.Change[string]) {
	n.mu.Lock()
	for _, ch := range changes {
		delete(n.late, ch.Peer)
	}
	n.mu.Unlock()
	poke(n.changed)
}

// Publish publishes the endpoints that this process's picker names, by pool.
func (n *Names) Publish(digests map[objectid.Target]string) {
	if len(digests) == 0 {
		return
	}
	items := make([]channel.Item, 0, len(digests))
	for pool, digest := range digests {
		items = append(items, channel.Item{Key: pool.String(), Value: []byte(digest)})
	}
	n.topic.Publish(items...)
}

// Retract retracts the digests of deleted pools.
func (n *Names) Retract(pools ...objectid.Target) {
	for _, p := range pools {
		n.topic.Retract(p.String())
	}
}

// Behind returns the peers with another digest of a pool, sorted, without late peers.
func (n *Names) Behind(pool objectid.Target, digest string) (peers []string) {
	theirs := n.elsewhere.ByKey(pool.String())
	n.mu.Lock()
	defer n.mu.Unlock()
	for peer, d := range theirs {
		if d != digest && !n.late[peer] {
			peers = append(peers, peer)
		}
	}
	slices.Sort(peers)
	return peers
}

// MarkLate excludes peers from Behind until they publish again, so that a frozen peer delays only
// once.
func (n *Names) MarkLate(peers ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range peers {
		n.late[p] = true
	}
}

// Changed has an element when Behind may have changed. It is for one receiver.
func (n *Names) Changed() <-chan struct{} { return n.changed }
