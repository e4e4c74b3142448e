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
	// loadsRetention is how long a lost peer's requests count, until its Envoys report to another
	// process.
	loadsRetention = 2 * time.Second
	// loadsInterval is the minimum time between publications.
	loadsInterval = 5 * time.Millisecond
	ownerKey      = "owner"
	// claimKey is the key of a claim (see Settle). answerKey, followed by an owner's name, is the
	// key of that owner's last claim that this process has counted.
	claimKey, answerKey = "claim", "answer "
	// headersKey, followed by a server's address, is the key of the server's times to response
	// headers, as this process has learned them.
	headersKey    = "headers "
	answerTimeout = 750 * time.Millisecond
)

// LoadCounter counts requests in flight. *picker.Picker implements it.
type LoadCounter interface {
	Owner() string
	// Loads has the counts of this process and of peers.
	Loads() *endpoint.Registry
}

// Loads publishes this process's picker and, by endpoint, its requests in flight and times to
// headers, so that costs and limits count all processes. It implements picker.Peers.
type Loads struct {
	topic   *channel.Topic
	peers   *channel.Mirror[load]
	counter LoadCounter
	others  atomic.Int64

	mu sync.Mutex // held while counts are read and published, so that older counts never replace newer ones

	claims   sync.Mutex
	claim    uint64
	owed     map[string]time.Time
	answered chan struct{}
}

type load struct {
	kind    loadKind
	owner   string
	share   endpoint.Share
	claim   uint64
	headers *endpoint.HeaderLimits
}

// loadKind is the first byte of an item's value. Decimal numbers follow, separated by spaces.
type loadKind byte

const (
	ofOwner loadKind = 'o'
	// An item of kind ofShare has a process's endpoint.Share of an address: InFlight, Unread,
	// Confirmed, Sent and Reading (in milliseconds), and Rate.
	ofShare loadKind = 's'
	ofClaim loadKind = 'c'
	// An item of kind ofHeaders has a server's endpoint.HeaderLimits: First (1 or 0), and Of in
	// milliseconds.
	ofHeaders loadKind = 'h'
)

// NewLoads makes a Loads. The caller must call Publish before the channel runs.
func NewLoads(c *channel.Channel) *Loads {
	l := &Loads{topic: c.Topic("loads"), owed: map[string]time.Time{}, answered: make(chan struct{})}
	l.peers = channel.NewMirror(l.topic, channel.MirrorConfig[load]{
		Decode: decodeLoad, Retention: loadsRetention, Changed: l.changed,
	})
	// The first subscriber needs all changes so far, because nothing is published without
	// subscribers.
	l.topic.Snapshot(func() []channel.Item {
		l.publish()
		return nil
	})
	return l
}

// Publish sets the picker whose requests are published.
func (l *Loads) Publish(c LoadCounter) {
	l.counter = c
	l.topic.Publish(channel.Item{Key: ownerKey, Value: append([]byte{byte(ofOwner)}, c.Owner()...)})
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

// Order implements picker.Peers.
func (l *Loads) Order() (others int, first bool) {
	if others = int(l.others.Load()); others == 0 {
		return 0, true
	}
	for _, other := range l.peers.ByKey(ownerKey) {
		if other.owner < l.counter.Owner() {
			return others, false
		}
	}
	return others, true
}

// Settle publishes this process's counts, then a claim, and waits for all peers' answers, which
// follow their own counts. If several processes take the last free place at once, the last one to
// count detects it. Acknowledgements do not suffice, because they overtake counts.
func (l *Loads) Settle(ctx context.Context) {
	l.publish()
	claim := l.publishClaim()
	for {
		l.claims.Lock()
		answered := l.answered
		l.claims.Unlock()
		left := l.unanswered(claim, time.Now())
		if left <= 0 {
			return
		}
		timeout := time.NewTimer(left)
		select {
		case <-ctx.Done():
		case <-answered:
		case <-timeout.C:
		}
		timeout.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

func (l *Loads) publishClaim() uint64 {
	l.claims.Lock()
	defer l.claims.Unlock()
	l.claim++
	for peer := range l.peers.ByKey(ownerKey) {
		if _, ok := l.owed[peer]; !ok {
			l.owed[peer] = time.Now()
		}
	}
	l.topic.Publish(channel.Item{Key: claimKey, Value: encodeClaim(l.claim)})
	return l.claim
}

func (l *Loads) unanswered(claim uint64, now time.Time) (left time.Duration) {
	l.claims.Lock()
	defer l.claims.Unlock()
	for peer := range l.peers.ByKey(ownerKey) {
		if answer, _ := l.peers.Get(peer, answerKey+l.counter.Owner()); answer.claim < claim {
			since, ok := l.owed[peer]
			if !ok {
				since = now
				l.owed[peer] = since
			}
			left = max(left, answerTimeout-now.Sub(since))
		}
	}
	return left
}

func (l *Loads) settle(changes []channel.Change[load]) {
	l.claims.Lock()
	defer l.claims.Unlock()
	for _, c := range changes {
		switch {
		case c.Key == claimKey && !c.Gone:
			if peer, ok := l.peers.Get(c.Peer, ownerKey); ok {
				l.topic.Publish(channel.Item{Key: answerKey + peer.owner, Value: encodeClaim(c.Value.claim)})
			}
		case c.Key == ownerKey && c.Gone:
			l.topic.Retract(answerKey + c.Value.owner)
			delete(l.owed, c.Peer)
		case c.Key == answerKey+l.counter.Owner() && c.Value.claim >= l.claim:
			delete(l.owed, c.Peer)
		case c.Key == answerKey+l.counter.Owner():
			l.owed[c.Peer] = time.Now()
		default:
			continue
		}
		close(l.answered)
		l.answered = make(chan struct{})
	}
}

// changed answers peers' claims after it has published this process's counts.
func (l *Loads) changed(changes []channel.Change[load]) {
	defer l.settle(changes)
	defer l.publish()
	l.others.Store(int64(len(l.peers.ByKey(ownerKey))))
	now := time.Now()
	for _, c := range changes {
		if addr, err := netip.ParseAddrPort(strings.TrimPrefix(c.Key, headersKey)); c.Value.kind == ofHeaders &&
			err == nil {
			l.counter.Loads().SetHeadersElsewhere(addr, l.headersOf(c.Key))
		}
		addr, err := netip.ParseAddrPort(c.Key)
		if c.Value.kind != ofShare || err != nil {
			continue
		}
		var all endpoint.Elsewhere
		for _, item := range l.peers.ByKey(c.Key) {
			s := item.share
			all.InFlight, all.Unread, all.Confirmed = all.InFlight+s.InFlight, all.Unread+s.Unread,
				all.Confirmed+s.Confirmed
			all.Rate = max(all.Rate, s.Rate)
		}
		switch s := c.Value.share; {
		case c.Gone:
		case c.New || s.Sent < c.Before.share.Sent:
			all.Reading = s.Reading
		default:
			all.Sent = s.Sent - c.Before.share.Sent
		}
		l.counter.Loads().SetElsewhere(addr, all, now)
	}
}

func (l *Loads) headersOf(key string) (all *endpoint.HeaderLimits) {
	for _, item := range l.peers.ByKey(key) {
		if item.headers == nil {
			continue
		}
		if all == nil {
			all = new(endpoint.HeaderLimits)
		}
		all.First = all.First || item.headers.First
		for class, limit := range item.headers.Of {
			all.Of[class] = max(all.Of[class], limit)
		}
	}
	return all
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
		if key := headersKey + c.Addr.String(); c.NewHeaders && c.Headers == nil {
			gone = append(gone, key)
		} else if c.NewHeaders {
			items = append(items, channel.Item{Key: key, Value: encodeHeaders(c.Headers)})
		}
	}
	if len(gone) > 0 {
		l.topic.Retract(gone...)
	}
	if len(items) > 0 {
		l.topic.Publish(items...)
	}
}

func encodeShare(s endpoint.Share) []byte {
	out := strconv.AppendInt([]byte{byte(ofShare)}, s.InFlight, 10)
	for _, n := range []int64{s.Unread, s.Confirmed, s.Sent.Milliseconds(), s.Reading.Milliseconds(), int64(s.Rate)} {
		out = strconv.AppendInt(append(out, ' '), n, 10)
	}
	return out
}

func encodeHeaders(l *endpoint.HeaderLimits) []byte {
	first := int64(0)
	if l.First {
		first = 1
	}
	out := strconv.AppendInt([]byte{byte(ofHeaders)}, first, 10)
	for _, limit := range l.Of {
		out = strconv.AppendInt(append(out, ' '), limit.Milliseconds(), 10)
	}
	return out
}

func decodeHeaders(text string) (*endpoint.HeaderLimits, error) {
	var l endpoint.HeaderLimits
	numbers := strings.Fields(text)
	if len(numbers) != 1+len(l.Of) {
		return nil, errLoad
	}
	l.First = numbers[0] == "1"
	for class, number := range numbers[1:] {
		ms, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return nil, errLoad
		}
		l.Of[class] = time.Duration(ms) * time.Millisecond
	}
	return &l, nil
}

var errLoad = errors.New("it is no name of a picker, share, claim or header limits")

const (
	maxInFlight = math.MaxInt32 / 64
	maxTokens   = 1 << 40
	maxTime     = math.MaxInt64 / int64(time.Millisecond) / 2
)

func encodeClaim(n uint64) []byte { return strconv.AppendUint([]byte{byte(ofClaim)}, n, 10) }

func decodeLoad(value []byte) (out load, err error) {
	if len(value) == 0 {
		return out, errLoad
	}
	out.kind = loadKind(value[0])
	switch text := string(value[1:]); out.kind {
	case ofOwner:
		out.owner = text
	case ofClaim:
		out.claim, err = strconv.ParseUint(text, 10, 64)
	case ofShare:
		out.share, err = decodeShare(text)
	case ofHeaders:
		out.headers, err = decodeHeaders(text)
	default:
		err = errLoad
	}
	return out, err
}

func decodeShare(text string) (s endpoint.Share, err error) {
	numbers := strings.Fields(text)
	most := [...]int64{maxInFlight, maxTokens, maxTokens, maxTime, maxTime, maxTokens}
	if len(numbers) != len(most) {
		return s, errLoad
	}
	var n [len(most)]int64
	for i, number := range numbers {
		if n[i], err = strconv.ParseInt(number, 10, 64); err != nil || n[i] < 0 || n[i] > most[i] {
			return s, errLoad
		}
	}
	return endpoint.Share{InFlight: n[0], Unread: n[1], Confirmed: min(n[1], n[2]),
		Sent: time.Duration(n[3]) * time.Millisecond, Reading: time.Duration(n[4]) * time.Millisecond,
		Rate: float64(n[5])}, nil
}
