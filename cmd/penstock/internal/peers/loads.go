package peers

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"strconv"
	"strings"
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
	loadsInterval = 10 * time.Millisecond
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

// Loads implements picker.Peers. It publishes what a process has in flight at each endpoint, so that costs and limits count the
// requests and the prompts of all processes. It reports which pickers are there.
type Loads struct {
	topic   *channel.Topic
	peers   *channel.Mirror[load]
	counter LoadCounter
	others  atomic.Int64 // peers with a picker

	mu sync.Mutex // held from the reading of counts to their publication, so that none replaces a newer one
}

// load is the value of an item: the share of a process at an address, or the name of its picker.
type load struct {
	owner string
	share endpoint.Share
}

// NewLoads makes it. Call Publish before the channel runs.
func NewLoads(c *channel.Channel) *Loads {
	l := &Loads{topic: c.Topic("loads")}
	l.peers = channel.NewMirror(l.topic, channel.MirrorConfig[load]{Decode: decodeLoad, Retention: loadsRetention, Changed: l.changed})
	// Without subscribers nothing is published, and what has changed stays to be.
	l.topic.Snapshot(func() []channel.Item {
		l.publish()
		return nil
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
		if alive.owner == owner {
			return true
		}
	}
	return false
}

// Others implements picker.Peers.
func (l *Loads) Others() int { return int(l.others.Load()) }

// First implements picker.Peers.
func (l *Loads) First() bool {
	for _, other := range l.peers.ByKey(ownerKey) {
		if other.owner < l.counter.Owner() {
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
func (l *Loads) changed(changes []channel.Change[load]) {
	defer l.publish()
	l.others.Store(int64(len(l.peers.ByKey(ownerKey))))
	now := time.Now()
	for _, c := range changes {
		addr, err := netip.ParseAddrPort(c.Key)
		if err != nil {
			continue // the owner
		}
		var all endpoint.Elsewhere
		for _, of := range l.peers.ByKey(c.Key) {
			s := of.share
			all.InFlight, all.Unread, all.Confirmed = all.InFlight+s.InFlight, all.Unread+s.Unread, all.Confirmed+s.Confirmed
			all.Rate = max(all.Rate, s.Rate)
		}
		switch s := c.Value.share; {
		case c.Gone:
		case c.New || s.Sent < c.Before.share.Sent: // of a process that has begun
			all.Reading = s.Reading
		default:
			all.Sent = s.Sent - c.Before.share.Sent
		}
		l.counter.Loads().SetElsewhere(addr, all, now)
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
		if !l.topic.Subscribed() {
			continue
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
	for _, c := range l.counter.Loads().Counts(time.Now()) {
		if key := c.Addr.String(); c.InFlight == 0 {
			gone = append(gone, key)
		} else {
			items = append(items, channel.Item{Key: key, Value: encodeShare(c.Share)})
		}
	}
	if len(gone) > 0 {
		l.topic.Retract(gone...)
	}
	if len(items) > 0 {
		l.topic.Publish(items...)
	}
}

// encodeShare writes a share: requests, unread and confirmed tokens, the milliseconds sent and left, the rate.
func encodeShare(s endpoint.Share) []byte {
	out := strconv.AppendInt(nil, s.InFlight, 10)
	for _, n := range []int64{s.Unread, s.Confirmed, s.Sent.Milliseconds(), s.Reading.Milliseconds(), int64(s.Rate)} {
		out = strconv.AppendInt(append(out, ' '), n, 10)
	}
	return out
}

var errLoad = errors.New("not the load of a process at an address")

// The most that is believed of one process at one address.
const (
	maxInFlight = math.MaxInt32 / 64
	maxTokens   = 1 << 40
	maxTime     = math.MaxInt64 / int64(time.Millisecond) / 2
)

// decodeLoad reads what encodeShare writes, or its first number alone. Anything else is the name of a picker.
func decodeLoad(value []byte) (out load, err error) {
	text := string(value)
	numbers := strings.Fields(text)
	if len(numbers) != 1 && len(numbers) != 6 {
		return load{owner: text}, nil
	}
	var n [6]int64
	for i, number := range numbers {
		if n[i], err = strconv.ParseInt(number, 10, 64); err != nil {
			return load{owner: text}, nil
		}
	}
	for i, most := range []int64{maxInFlight, maxTokens, maxTokens, maxTime, maxTime, maxTokens} {
		if n[i] < 0 || n[i] > most {
			return out, errLoad
		}
	}
	out.share = endpoint.Share{InFlight: n[0], Unread: n[1], Confirmed: min(n[1], n[2]), Sent: time.Duration(n[3]) * time.Millisecond, Reading: time.Duration(n[4]) * time.Millisecond, Rate: float64(n[5])}
	return out, nil
}
