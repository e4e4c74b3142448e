package admission

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
)

// Config configures a Listener. A connection is admitted once its client has authenticated (see
// Admit).
type Config struct {
	// PerAddress limits one address's connections that are not admitted. Default: 64.
	PerAddress int
	// Timeout limits the handshake and the authentication. Default: 30 s.
	Timeout time.Duration
	// Bytes limits what a connection sends before it is admitted. Default: 256 KiB.
	Bytes int64
	// With Every, connections that are never admitted stay open, such as health checks. Timeout
	// does not apply, and Bytes limits each interval of length Every.
	Every time.Duration
	// With Trusting, every connection is admitted at once: there is no authentication.
	Trusting bool
	// Budget closes connections with large incomplete messages when memory runs short. Optional.
	Budget *Budget
	// Most limits all connections; 0: no limit. One address may have half of them. At the limit, a
	// new connection replaces the oldest connection that is not admitted.
	Most int
	// Log may be nil.
	Log *slog.Logger
}

// Listener limits connections. It is safe for concurrent use.
type Listener struct {
	net.Listener
	cfg Config

	mu      sync.Mutex
	waiting map[netip.Addr]int
	oldest  list.List
	open    map[netip.Addr]int
	all     int
	conns   map[*conn]struct{}
}

func Listen(l net.Listener, c Config) *Listener {
	c.PerAddress = cmp.Or(c.PerAddress, 64)
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	c.Bytes = cmp.Or(c.Bytes, 256<<10)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Listener{Listener: l, cfg: c, waiting: map[netip.Addr]int{}, open: map[netip.Addr]int{},
		conns: map[*conn]struct{}{}}
}

// Accept closes connections beyond the limits.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, listener: l, address: Address(raw.RemoteAddr())}
		if c.admitted.Store(l.cfg.Trusting); !l.cfg.Trusting {
			c.late = time.AfterFunc(math.MaxInt64, c.expire)
		}
		crowded, denied := l.enter(c)
		if crowded != nil {
			_ = crowded.Close()
		}
		if denied != "" {
			c.left.Do(func() {})
			c.counted.Do(func() {})
			_ = raw.Close()
			l.cfg.Log.Warn("connections closed: "+denied, "address", c.address.String(), "listener", l.Addr().String())
			continue
		}
		if !l.cfg.Trusting && l.cfg.Every == 0 {
			c.late.Reset(l.cfg.Timeout)
		}
		if quick, ok := raw.(readsOnReady); ok && l.cfg.Trusting && l.cfg.Budget == nil {
			return &readyConn{c, quick}, nil
		}
		return c, nil
	}
}

type readsOnReady interface {
	ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error)
}

type readyConn struct {
	*conn
	readsOnReady
}

// Address returns a client's IP address, or the zero Addr.
func Address(a net.Addr) netip.Addr {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

// enter returns why a connection is denied. At the limit it also returns an older connection
// (crowded), which the caller closes.
func (l *Listener) enter(c *conn) (crowded *conn, denied string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	named := c.address.IsValid() // all connections of a Unix socket share one address
	switch {
	case !l.cfg.Trusting && l.waiting[c.address] >= l.cfg.PerAddress:
		return nil, "too many from this address have not authenticated"
	case l.cfg.Most > 0 && named && l.open[c.address] >= max(l.cfg.Most/2, 1):
		return nil, "this address has half of all connections of the port"
	case l.cfg.Most > 0 && l.all >= l.cfg.Most:
		first := l.oldest.Front()
		if first == nil {
			return nil, "the port has as many as its share of file descriptors allows"
		}
		crowded = first.Value.(*conn)
		l.oldest.Remove(first)
		crowded.place = nil
	}
	l.all++
	l.conns[c] = struct{}{}
	l.open[c.address]++
	if !l.cfg.Trusting {
		l.waiting[c.address]++
		c.place = l.oldest.PushBack(c)
	}
	return crowded, ""
}

func decrease(counts map[netip.Addr]int, a netip.Addr) {
	if counts[a]--; counts[a] == 0 {
		delete(counts, a)
	}
}

func (l *Listener) settled(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	decrease(l.waiting, c.address)
	if c.place != nil {
		l.oldest.Remove(c.place)
		c.place = nil
	}
}

func (l *Listener) leave(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	delete(l.conns, c)
	decrease(l.open, c.address)
}

// EndWrites closes the write half of all connections, so that clients close them. It returns when
// they are closed, or after `most`. Data that clients have sent is read.
func (l *Listener) EndWrites(most time.Duration) {
	end := time.After(most)
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	l.mu.Lock()
	for c := range l.conns {
		if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}
	l.mu.Unlock()
	for {
		l.mu.Lock()
		open := l.all
		l.mu.Unlock()
		if open == 0 {
			return
		}
		select {
		case <-again.C:
		case <-end:
			return
		}
	}
}

type conn struct {
	net.Conn
	listener *Listener
	address  netip.Addr
	late     *time.Timer
	received atomic.Int64
	since    time.Time
	counted  sync.Once
	left     sync.Once
	place    *list.Element // guarded by Listener.mu
	admitted atomic.Bool
	pending  pending
}

var (
	errTooMuch  = errors.New("the client sent too much without authenticating")
	errOverload = errors.New("the connection exceeds its share of the memory for incomplete messages")
)

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
		c.listener.cfg.Log.Warn("connection closed: it exceeds its share of the memory for incomplete messages",
			"address", c.address.String())
		return 0, errOverload
	}
	return n, err
}

func (c *conn) Close() error {
	c.settle()
	c.left.Do(func() { c.listener.leave(c) })
	c.listener.cfg.Budget.closed(&c.pending)
	return c.Conn.Close()
}

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return remote{c.Conn.RemoteAddr(), c} }

type remote struct {
	net.Addr
	conn *conn
}

func (c *conn) admit() {
	c.admitted.Store(true)
	c.settle()
}

func (c *conn) settle() {
	c.counted.Do(func() {
		if c.late == nil {
			return
		}
		c.late.Stop()
		c.listener.settled(c)
	})
}

func (c *conn) expire() {
	if !c.admitted.Load() {
		_ = c.Close()
	}
}

// Admit lifts the limits of a call's connection once its client has authenticated.
func Admit(ctx context.Context) {
	if c := connOf(ctx); c != nil {
		c.admit()
	}
}

// closeDelay lets a client read why its call was denied.
const closeDelay = time.Second

// CloseSoon closes a connection whose certificate has expired, because Envoy presents a new
// certificate only on a new connection.
func CloseSoon(ctx context.Context) {
	if c := connOf(ctx); c != nil {
		time.AfterFunc(closeDelay, func() { _ = c.Close() })
	}
}

func connOf(ctx context.Context) *conn {
	if p, ok := peer.FromContext(ctx); ok {
		if r, ok := p.Addr.(remote); ok {
			return r.conn
		}
	}
	return nil
}
