package channel

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Config is what a Channel needs.
type Config struct {
	// Peers are the addresses ("host:port") at which the other processes serve. SetPeers changes
	// them.
	Peers []string
	// Credentials are used to dial peers; nil: cleartext. The caller of Register chooses those of
	// the server.
	Credentials credentials.TransportCredentials
	// CredentialsOf returns those that are used to dial one peer, in place of Credentials; nil:
	// Credentials are used for all.
	CredentialsOf func(address string) credentials.TransportCredentials
	// NameOf returns the name of the cluster of a peer, for the log; nil or "": it has none.
	NameOf func(address string) string
	// Dial connects to an address of a peer; nil: over TCP.
	Dial func(ctx context.Context, peer, address string) (net.Conn, error)
	// Connect makes the connections to peers; nil: gRPC's, with Dial.
	Connect Connect
	// Identify returns the name of a subscriber, by the context of its call, or an error that ends
	// it. Topic.Visible gets it. nil: subscribers have no names.
	Identify func(ctx context.Context) (string, error)
	// AckTimeout is how long Topic.Acknowledged waits for a peer. Default: 750 ms. A pick may take
	// 2 s, so this leaves time for the rest of it, and a frozen process costs a pick this time
	// once. It is enough for a process that a busy machine seldom runs: with 250 ms, at 7 % of a
	// core, picks named endpoints that Envoy did not have yet, and pools that fail closed answered
	// 503.
	AckTimeout time.Duration
	// Debounce is how long a response waits for further publications, which it has then too. 0: not
	// at all, because picks wait for what processes of one control plane publish.
	Debounce time.Duration
	// GracePeriod is how long a disconnected peer is expected to come back. Default: 5 s.
	GracePeriod time.Duration
	// Limits bound what each peer makes this process hold. Exceeded is called when the stream of a
	// peer has ended because it exceeded one, or because it does not follow the protocol; optional.
	Limits   Limits
	Exceeded func(peer, problem string)
	// Received is called with each message of a peer. It returns how long the acknowledgement of a
	// message waits that is not the last one of its response. Optional.
	Received func(peer string, in Received) time.Duration
	// Now is the clock that certificates are compared with; time.Now if nil.
	Now func() time.Time
	Log *slog.Logger // nil: discarded
	// OnPanic is called when handling a message of a peer has panicked. That ends the peer's
	// stream, or drops the message. nil drops it.
	OnPanic func(peer string, value any, stack []byte)
}

// Received describes a message of a peer.
type Received struct {
	Items, Bytes int
	// Dropped describes the items with invalid keys (Topic.Keys) of this message and of the
	// messages before it in its response; nil: this message has no such item.
	Dropped error
}

// Connect makes a connection to the process at an address. It is established when a stream is made.
type Connect func(address string, with credentials.TransportCredentials) (Connection, error)

// Connection is a connection to a peer. *grpc.ClientConn implements it.
type Connection interface {
	grpc.ClientConnInterface
	GetState() connectivity.State
	Close() error
}

// Channel is this process's end of all topics, as publisher and as subscriber. It is safe for
// concurrent use.
type Channel struct {
	cfg Config
	id  string // identifies this process among those that share a list of addresses

	expiryCheck time.Duration // the constant; shorter in tests

	mu          sync.Mutex
	topics      map[string]*Topic
	subscribers map[*subscriber]struct{} // processes that subscribe to this one
	peers       map[string]*peer         // processes that this one subscribes to
	changed     chan struct{}            // closed and replaced when the peers or their state change
}

// New makes a channel. Make its topics and their subscriptions next, then call Register and Run.
func New(c Config) *Channel {
	c.AckTimeout, c.GracePeriod = cmp.Or(c.AckTimeout, 750*time.Millisecond), cmp.Or(c.GracePeriod, 5*time.Second)
	if c.Credentials == nil {
		c.Credentials = insecure.NewCredentials()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	out := &Channel{
		cfg: c, id: rand.Text(), expiryCheck: expiryCheck, topics: map[string]*Topic{},
		subscribers: map[*subscriber]struct{}{}, peers: map[string]*peer{}, changed: make(chan struct{}),
	}
	out.SetPeers(c.Peers...)
	return out
}

// SetPeers replaces the addresses of the other processes. The process's own address may be among
// them.
func (c *Channel) SetPeers(addresses ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.peers, func(address string, p *peer) bool {
		gone := !slices.Contains(addresses, address)
		if gone && p.stop != nil {
			p.stop()
		}
		return gone
	})
	for _, a := range addresses {
		if c.peers[a] == nil {
			c.peers[a] = &peer{address: a, seen: time.Now()}
		}
	}
	c.notify()
}

// notify ends every wait for a change of the peers. mu is held.
func (c *Channel) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// until returns when a condition holds, which is evaluated with mu held, or with the context's
// error.
func (c *Channel) until(ctx context.Context, holds func() bool) error {
	for {
		c.mu.Lock()
		done, changed := holds(), c.changed
		c.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// Synced returns when the snapshots of all peers that can be reached are in effect here, or with
// the context's error. Run must be running.
func (c *Channel) Synced(ctx context.Context) error {
	if err := c.until(ctx, func() bool {
		for _, p := range c.peers {
			if !p.tried && len(p.synced) < len(c.topics) {
				return false
			}
		}
		return true
	}); err != nil {
		return fmt.Errorf("another process does not answer: %w", err)
	}
	return nil
}

// Isolated reports whether no other process can receive what is published: there is none, or all
// have been disconnected for longer than Config.GracePeriod.
func (c *Channel) Isolated() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.peers {
		if p.connected() || !p.self && time.Since(p.seen) < c.cfg.GracePeriod {
			return false
		}
	}
	return true
}

// Connected reports whether a peer's items are in effect here now.
func (c *Channel) Connected(peer string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.peers[peer]
	return p != nil && p.connected()
}
