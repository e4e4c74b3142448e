package admission

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/peer"
)

// Config configures a Listener.
type Config struct {
	// PerAddress is the number of connections of one address that are not admitted. Default: 64.
	PerAddress int
	// Timeout is how long a connection may take to be admitted: its handshake and the verification of its credential.
	// Default: 30 s, because thousands of proxies may connect at once.
	Timeout time.Duration
	// Bytes is how much a connection may send before, handshakes and headers included. Default: 256 KiB.
	Bytes int64
	// Every, if set, lets a connection stay that is not admitted, as one for health checks: Bytes is then how much it may send
	// in this time, and Timeout does not apply.
	Every time.Duration
	// Trusting admits every connection at once: there is nothing to authenticate. Budget applies.
	Trusting bool
	// Budget ends connections that send too much while too many messages are being received; nil: never.
	Budget *Budget
	// Log may be nil.
	Log *slog.Logger
}

// Listener accepts connections. It is safe for concurrent use.
type Listener struct {
	net.Listener
	cfg Config

	mu      sync.Mutex
	waiting map[netip.Addr]int // connections that are not admitted
}

// Listen limits the connections of a listener.
func Listen(l net.Listener, c Config) *Listener {
	c.PerAddress = cmp.Or(c.PerAddress, 64)
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	c.Bytes = cmp.Or(c.Bytes, 256<<10)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Listener{Listener: l, cfg: c, waiting: map[netip.Addr]int{}}
}

// Accept returns the next connection of an address that has fewer than Config.PerAddress; it closes the others.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, listener: l, address: addressOf(raw.RemoteAddr())}
		if l.cfg.Trusting {
			c.admitted.Store(true)
			return c, nil
		}
		if !l.enter(c.address) {
			_ = raw.Close()
			l.cfg.Log.Warn("connections closed: too many from this address have not authenticated", "address", c.address.String(), "limit", l.cfg.PerAddress)
			continue
		}
		c.late = time.AfterFunc(math.MaxInt64, c.expire)
		if l.cfg.Every == 0 {
			c.late.Reset(l.cfg.Timeout) // it cannot fire before the field is set
		}
		return c, nil
	}
}

// addressOf is the IP address of a client; the zero address stands for all clients without one, as those of a Unix
// socket.
func addressOf(a net.Addr) netip.Addr {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

// enter reports whether an address may have one more connection, and counts it.
func (l *Listener) enter(a netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting[a] >= l.cfg.PerAddress {
		return false
	}
	l.waiting[a]++
	return true
}

func (l *Listener) leave(a netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting[a]--; l.waiting[a] == 0 {
		delete(l.waiting, a)
	}
}

// conn is a connection with its limits.
type conn struct {
	net.Conn
	listener *Listener
	address  netip.Addr
	late     *time.Timer
	received atomic.Int64
	since    time.Time // start of Config.Every; of Read alone
	counted  sync.Once // it is counted no longer
	admitted atomic.Bool
	pending  pending
}

var (
	errTooMuch  = errors.New("the client sent too much without authenticating")
	errOverload = errors.New("too many messages are being received, and the client sends much")
)

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if every := c.listener.cfg.Every; every > 0 && !c.admitted.Load() {
		if now := time.Now(); now.Sub(c.since) >= every {
			c.since = now
			c.received.Store(0)
		}
	}
	if !c.admitted.Load() && c.received.Add(int64(n)) > c.listener.cfg.Bytes {
		_ = c.Close()
		return 0, errTooMuch
	}
	if !c.listener.cfg.Budget.sent(&c.pending, n) {
		_ = c.Close()
		c.listener.cfg.Log.Warn("connection closed: it sends much while too many messages are being received", "address", c.address.String())
		return 0, errOverload
	}
	return n, err
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.settle()
	c.listener.cfg.Budget.closed(&c.pending)
	return c.Conn.Close()
}

// RemoteAddr implements net.Conn. gRPC gives it to every call of the connection.
func (c *conn) RemoteAddr() net.Addr { return remote{c.Conn.RemoteAddr(), c} }

// remote is the address of a client, with its connection.
type remote struct {
	net.Addr
	conn *conn
}

func (c *conn) admit() {
	c.admitted.Store(true)
	c.settle()
}

// settle ends the counting of a connection that is admitted or closed.
func (c *conn) settle() {
	c.counted.Do(func() {
		if c.late == nil { // Config.Trusting
			return
		}
		c.late.Stop()
		c.listener.leave(c.address)
	})
}

func (c *conn) expire() {
	if !c.admitted.Load() {
		_ = c.Close()
	}
}

// Admit lifts the limits of a call's connection: its client has authenticated. Connections of other listeners have none.
func Admit(ctx context.Context) {
	if c := connOf(ctx); c != nil {
		c.admit()
	}
}

// closeDelay is how long a client has to read why its call was denied.
const closeDelay = time.Second

// CloseSoon closes the connection of a call in a moment: its certificate has expired, and the client presents another one on another connection
// alone. Envoy opens all its streams on the connection that it has.
func CloseSoon(ctx context.Context) {
	if c := connOf(ctx); c != nil {
		time.AfterFunc(closeDelay, func() { _ = c.Close() })
	}
}

// connOf is the connection of a call; nil if no Listener accepted it.
func connOf(ctx context.Context) *conn {
	if p, ok := peer.FromContext(ctx); ok {
		if r, ok := p.Addr.(remote); ok {
			return r.conn
		}
	}
	return nil
}
