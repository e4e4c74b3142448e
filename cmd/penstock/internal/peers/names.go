package peers

import (
	"slices"
	"sync"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/channel"
)

// Names exchanges which endpoints the picker of each process names, as a digest per pool. Any Envoy
// may ask any picker, so an endpoint may leave Envoy only when no picker names it any more. All
// processes read the same objects, but not at the same moment.
type Names struct {
	topic     *channel.Topic
	elsewhere *channel.Mirror[string]
	changed   chan struct{}

	mu   sync.Mutex
	late map[string]bool // peers that exceeded a wait and have published nothing since
}

// NewNames makes it.
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
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// Publish publishes what the picker of this process names, by pool.
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

// Retract takes back what was published of pools that are gone.
func (n *Names) Retract(pools ...objectid.Target) {
	for _, p := range pools {
		n.topic.Retract(p.String())
	}
}

// Behind returns the peers whose pickers name other endpoints of a pool than a digest describes,
// sorted. Late ones are left out, and so are peers that publish nothing of the pool.
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

// MarkLate leaves peers out of Behind until they publish again: a frozen process is waited for
// once.
func (n *Names) MarkLate(peers ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range peers {
		n.late[p] = true
	}
}

// Changed receives after Behind may have changed. It is for one receiver.
func (n *Names) Changed() <-chan struct{} { return n.changed }
