package peers

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/picker/endpoint"
)

const (
	// loadsRetention is how long the requests of a peer count after the connection to it is lost. Their Envoys report each every
	// 2 s, to a process that is still there, which counts them from then on.
	loadsRetention = 2 * time.Second
	// loadsInterval is the least time between two publications. The first change after it is published at once.
	loadsInterval = 5 * time.Millisecond
	// ownerKey is the key of the item that names a process's picker.
	ownerKey = "owner"
)

// LoadCounter counts requests in flight. *picker.Picker implements it.
type LoadCounter interface {
	// Owner identifies the picker of this process.
	Owner() string
	// Loads has the counts of this process, and takes those of peers.
	Loads() *endpoint.Registry
}

// Loads implements picker.Peers. It publishes how many requests a process has in flight at endpoints that limit their number, so that the limit counts
// the requests of all processes. It reports which pickers are there.
type Loads struct {
	topic   *channel.Topic
	peers   *channel.Mirror[string]
	counter LoadCounter
	others  atomic.Int64 // peers with a picker

	mu sync.Mutex // held from the reading of counts to their publication, so that none replaces a newer one
}

// NewLoads makes it. Call Publish before the channel runs.
func NewLoads(c *channel.Channel) *Loads {
	l := &Loads{topic: c.Topic("loads")}
	l.peers = channel.NewMirror(l.topic, channel.MirrorConfig[string]{
		Decode:    func(value []byte) (string, error) { return string(value), nil },
		Retention: loadsRetention,
		Changed:   l.changed,
	})
	return l
}

// Publish sets whose requests are published.
func (l *Loads) Publish(c LoadCounter) {
	l.counter = c
	l.topic.Publish(channel.Item{Key: ownerKey, Value: []byte(c.Owner())})
}

// Alive implements picker.Peers.
func (l *Loads) Alive(owner string) bool {
	for _, alive := range l.peers.ByKey(ownerKey) {
		if alive == owner {
			return true
		}
	}
	return false
}

// Others implements picker.Peers.
func (l *Loads) Others() int { return int(l.others.Load()) }

// First implements picker.Peers.
func (l *Loads) First() bool {
	for _, owner := range l.peers.ByKey(ownerKey) {
		if owner < l.counter.Owner() {
			return false
		}
	}
	return true
}

// Settle implements picker.Peers.
func (l *Loads) Settle(ctx context.Context) {
	l.publish()
	_ = l.topic.Acknowledged(ctx) // its only error is that ctx is over
}

// changed adds up what peers publish of each address. It publishes the counts of this process before the peers' counts are
// acknowledged: of two processes that take the last slot at once, at least one then finds out.
func (l *Loads) changed(changes []channel.Change[string]) {
	defer l.publish()
	l.others.Store(int64(len(l.peers.ByKey(ownerKey))))
	for _, c := range changes {
		addr, err := netip.ParseAddrPort(c.Key)
		if err != nil {
			continue // the owner
		}
		total := int64(0)
		for _, text := range l.peers.ByKey(c.Key) {
			if n, err := strconv.ParseUint(text, 10, 31); err == nil {
				total += int64(n)
			}
		}
		l.counter.Loads().SetElsewhere(addr, total)
	}
}

// Run publishes until ctx ends.
func (l *Loads) Run(ctx context.Context) error {
	loads := l.counter.Loads()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-loads.Counted():
		}
		l.publish()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(loadsInterval):
		}
	}
}

// publish publishes the counts that have changed.
func (l *Loads) publish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	var items []channel.Item
	var gone []string
	for _, c := range l.counter.Loads().Counts() {
		if c.InFlight == 0 {
			gone = append(gone, c.Addr.String())
		} else {
			items = append(items, channel.Item{Key: c.Addr.String(), Value: fmt.Append(nil, c.InFlight)})
		}
	}
	if len(gone) > 0 {
		l.topic.Retract(gone...)
	}
	if len(items) > 0 {
		l.topic.Publish(items...)
	}
}
