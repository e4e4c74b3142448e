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

// Config configures a Channel.
type Config struct {
	// Peers are the addresses ("host:port") of the other processes.
	Peers []string
	// Credentials authenticate connections to peers; nil: cleartext.
	Credentials credentials.TransportCredentials
	// CredentialsOf, if set, returns the credentials for dialling one peer, instead of Credentials.
	CredentialsOf func(address string) credentials.TransportCredentials
	// NameOf, if set, returns the name of a peer's cluster for log lines; "": unknown.
	NameOf func(address string) string
	// Dial connects to one of a peer's addresses; nil: over TCP.
	Dial func(ctx context.Context, peer, address string) (net.Conn, error)
	// Connect makes the connections to peers; nil: gRPC with Dial.
	Connect Connect
	// Identify returns the name of a subscriber, for Topic.Visible. An error ends the call. nil:
	// subscribers have no names.
	Identify func(ctx context.Context) (string, error)
	// AckTimeout is how long Topic.Acknowledged waits for a peer. Default: 750 ms, because a pick,
	// whose deadline is 2 s, may wait for it.
	AckTimeout time.Duration
	// Debounce is how long a response waits for further publications. 0: it is sent at once.
	Debounce time.Duration
	// GracePeriod is how long a disconnected peer may take to reconnect. Default: 5 s.
	GracePeriod time.Duration
	// The channel ends the stream of a peer that exceeds Limits or violates the protocol, and calls
	// Exceeded, if set.
	Limits   Limits
	Exceeded func(peer, problem string)
	// Received, if set, returns how long to delay the acknowledgement of a message. It has no
	// effect for the last message of a response.
	Received func(peer string, in Received) time.Duration
	// Now is the clock for certificates; nil: time.Now.
	Now func() time.Time
	Log *slog.Logger // nil: log lines are discarded
	// OnPanic, if set, receives panics while handling a peer's message.
	OnPanic func(peer string, value any, stack []byte)
}

// Received describes one message from a peer.
type Received struct {
	Items, Bytes int
	// Dropped describes the invalid keys of the response so far; nil if this message has none.
	Dropped error
}

// Connect returns a connection to the process at an address. The connection dials when its first
// stream opens.
type Connect func(address string, with credentials.TransportCredentials) (Connection, error)

// Connection is a connection to a peer. *grpc.ClientConn implements it.
type Connection interface {
	grpc.ClientConnInterface
	GetState() connectivity.State
	Close() error
}

// Channel publishes this process's items, and subscribes to the peers' items, on all topics. It is
// safe for concurrent use.
type Channel struct {
	cfg Config
	id  string

	expiryCheck time.Duration

	mu          sync.Mutex
	topics      map[string]*Topic
	subscribers map[*subscriber]struct{}
	peers       map[string]*peer
	changed     chan struct{} // closed and replaced when peers or their connections change
}

// New makes a channel. Make its topics and subscriptions next; then call Register and Run.
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
	if c.Connect == nil {
		out.cfg.Connect = out.connect
	}
	out.SetPeers(c.Peers...)
	return out
}

// SetPeers replaces the addresses of the other processes. This process's own address may be among
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

// The caller holds mu.
func (c *Channel) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// until waits until holds, called with mu held, returns true, or ctx ends.
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

// Synced waits until the snapshots of all reachable peers are in effect, or ctx ends. Run must be
// running.
func (c *Channel) Synced(ctx context.Context) error {
	if err := c.until(ctx, func() bool {
		for _, p := range c.peers {
			if !p.tried && len(p.synced) < len(c.topics) {
				return false
			}
		}
		return true
	}); err != nil {
		return fmt.Errorf("another process does not respond: %w", err)
	}
	return nil
}

// Isolated reports whether no other process can receive publications: none exists, or all have been
// disconnected for longer than Config.GracePeriod.
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

// Connected reports whether this process is connected to a peer, and the peer's snapshot of at
// least one topic is in effect.
func (c *Channel) Connected(peer string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.peers[peer]
	return p != nil && p.connected()
}
