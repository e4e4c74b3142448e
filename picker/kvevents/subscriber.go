package kvevents

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/picker/zmtp"
)

// DefaultBlocks is the default of Config.Blocks: about 200 MiB.
const DefaultBlocks = 4 << 20

// Config configures a Subscriber.
type Config struct {
	Prefixes *prefix.Index // required
	// Listener accepts publishers that dial; may be nil. Run closes the Listener.
	Listener net.Listener
	// Blocks bounds the blocks of all servers; default DefaultBlocks.
	Blocks int
	// Load receives each published load; may be nil.
	Load func(server netip.AddrPort, l Load)
	// Never returns why an address must not be dialed, or ""; may be nil.
	Never func(netip.Addr) string
	// Retry is the first pause between attempts to connect; default 1 s. Pauses double up to 30 s.
	Retry time.Duration
	Log   *slog.Logger // default: slog.Default()
	// OnPanic is called if the reader of a source panics; may be nil.
	OnPanic func(source string, value any, stack []byte)
}

// Subscriber reads the KV events of model servers during Run.
type Subscriber struct {
	config  Config
	quota   quota
	large   chan struct{}
	changed chan struct{}

	mu      sync.Mutex
	sources map[Source]*source
	added   []*source
	dialled map[netip.Addr][]*source // sources whose publishers dial
	own     map[netip.Addr]*places
	loads   map[LoadSource]*loadSource
	begun   []*loadSource
}

type places struct {
	taken chan struct{}
	conns int
}

// At most readers connections, and ownReaders of one address, read a large message at the same
// time.
const (
	readers    = 16
	ownReaders = 4
)

const expireEvery = 500 * time.Millisecond

// New returns a Subscriber without sources.
func New(c Config) *Subscriber {
	c.Blocks, c.Retry = cmp.Or(c.Blocks, DefaultBlocks), cmp.Or(c.Retry, time.Second)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Load == nil {
		c.Load = func(netip.AddrPort, Load) {}
	}
	if c.OnPanic == nil {
		c.OnPanic = func(string, any, []byte) {}
	}
	s := &Subscriber{
		config: c, large: make(chan struct{}, readers), changed: make(chan struct{}, 1),
		sources: map[Source]*source{}, dialled: map[netip.Addr][]*source{}, own: map[netip.Addr]*places{},
		loads: map[LoadSource]*loadSource{},
	}
	s.quota.limit = int64(c.Blocks)
	return s
}

func (s *Subscriber) notify() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Subscription is a pool's subscription to the KV events of its servers.
type Subscription struct {
	subscriber *Subscriber
	sources    []*source
}

// Subscribe subscribes to the KV events of sources. Equal sources share one connection.
func (s *Subscriber) Subscribe(list []Source) *Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &Subscription{subscriber: s}
	for _, key := range list {
		src := s.sources[key]
		if src == nil {
			src = &source{Source: key, gone: make(chan struct{})}
			src.stream.tree = tree{index: s.config.Prefixes, server: s.config.Prefixes.Server(key.Server),
				quota: &s.quota}
			s.sources[key] = src
			s.quota.servers.Add(1)
			s.added = append(s.added, src)
			if !key.Publisher.IsValid() {
				host := key.Server.Addr().Unmap()
				s.dialled[host] = append(s.dialled[host], src)
			}
			src.fail(errors.New("KV events: no connection yet"))
			src.failures.Store(0)
		}
		src.refs++
		out.sources = append(out.sources, src)
	}
	s.notify()
	return out
}

// Release ends the subscription. Sources without another subscription lose their reports.
func (n *Subscription) Release() {
	if n == nil {
		return
	}
	s := n.subscriber
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, src := range n.sources {
		if src.refs--; src.refs > 0 {
			continue
		}
		delete(s.sources, src.Source)
		s.quota.servers.Add(-1)
		if !src.Publisher.IsValid() {
			s.forgetDialled(src)
		}
		close(src.gone)
		s.added = append(s.added, src)
	}
	s.notify()
}

func (s *Subscriber) forgetDialled(src *source) {
	host := src.Server.Addr().Unmap()
	for i, other := range s.dialled[host] {
		if other == src {
			s.dialled[host] = append(s.dialled[host][:i:i], s.dialled[host][i+1:]...)
			break
		}
	}
	if len(s.dialled[host]) == 0 {
		delete(s.dialled, host)
	}
}

// Problem returns why a server's reports are incomplete, or "". known is the server's Knowledge.
func (n *Subscription) Problem(server netip.AddrPort) (problem string, known prefix.Knowledge) {
	if n == nil {
		return "", prefix.Guessed
	}
	for _, src := range n.sources {
		if src.Server != server {
			continue
		}
		if text := src.problem.Load(); text != nil {
			problem = *text
		}
		known = src.stream.tree.server.Knowledge()
		if problem == "" && known != prefix.Reported {
			problem = src.incomplete(known)
		}
		return problem, known
	}
	return "", prefix.Guessed
}

// Failures calls f for each server, with the number of its connections that failed or ended.
func (n *Subscription) Failures(f func(server netip.AddrPort, times uint64)) {
	if n == nil {
		return
	}
	for _, src := range n.sources {
		f(src.Server, src.failures.Load())
	}
}

// Run reads events until ctx ends.
func (s *Subscriber) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	if s.config.Listener != nil {
		all.Go(func() { s.accept(ctx, s.config.Listener) })
	}
	ticker := time.NewTicker(expireEvery)
	defer ticker.Stop()
	ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			for _, src := range s.list() {
				src.lapse(now)
			}
		case <-s.changed:
			s.mu.Lock()
			added := s.added
			s.added = nil
			begun := s.begun
			s.begun = nil
			some := len(s.sources) > 0
			s.mu.Unlock()
			for _, src := range added {
				all.Go(func() { s.serve(ctx, src) })
			}
			for _, src := range begun {
				all.Go(func() { s.serveLoads(ctx, src) })
			}
			if ticker.Stop(); some {
				ticker.Reset(expireEvery)
			}
		}
	}
}

func (s *Subscriber) list() (all []*source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, src := range s.sources {
		all = append(all, src)
	}
	return all
}

func (s *Subscriber) serve(ctx context.Context, src *source) {
	select {
	case <-src.gone:
		s.end(src)
		return
	default:
	}
	if src.Publisher.IsValid() {
		s.keepConnected(ctx, src.gone, func(ctx context.Context) error { return s.connect(ctx, src) }, func(err error) {
			src.fail(err)
			s.config.Log.Debug("no KV events", "server", src.Server, "publisher", src.Publisher, "error", err)
		})
	}
}

func (s *Subscriber) end(src *source) {
	src.disconnect()
	src.reading.Lock()
	defer src.reading.Unlock()
	src.stream.forget()
	src.ended = true
	s.config.Prefixes.Release(src.stream.tree.server)
	for _, other := range s.list() {
		if other.Server == src.Server { // the server has a new source, because its settings changed
			other.restart.Store(true)
			other.disconnect()
		}
	}
}

func (s *Subscriber) keepConnected(ctx context.Context, gone <-chan struct{}, connect func(context.Context) error,
	failed func(error)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-gone:
			cancel()
		case <-ctx.Done():
		}
	}()
	failures := 0
	for wait := time.Duration(rand.Int64N(int64(s.config.Retry))); ; {
		if pause(ctx, wait) != nil {
			return
		}
		began := time.Now()
		err := connect(ctx)
		if ctx.Err() != nil {
			return
		}
		failed(err)
		if failures++; time.Since(began) >= tried {
			failures = 1
		}
		wait = min(s.config.Retry<<min(failures-1, 10), 30*time.Second)
		wait = time.Duration(float64(wait) * (0.75 + rand.Float64()/2))
	}
}

func pause(ctx context.Context, wait time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait):
		return nil
	}
}

func (s *Subscriber) connect(ctx context.Context, src *source) error {
	c, end, err := s.dial(ctx, src.Publisher, zmtp.Sub, 0)
	if err != nil {
		return fmt.Errorf("KV events at %s: %w", src.Publisher, err)
	}
	defer end()
	if err := c.Subscribe(src.Topic); err != nil {
		return fmt.Errorf("KV events at %s: %w", src.Publisher, err)
	}
	if err := s.follow(ctx, src, c, nil); err != nil {
		return fmt.Errorf("KV events at %s: %w", src.Publisher, err)
	}
	return nil
}

const dialTimeout = 3 * time.Second

// dial opens a connection, which lasts until the caller calls end or ctx ends. most is the maximum
// size of a message, in bytes; 0 means zmtp.DefaultMessage.
func (s *Subscriber) dial(ctx context.Context, to netip.AddrPort, socketType string, most int) (c *zmtp.Conn,
	end func(), err error) {
	if s.config.Never != nil {
		if kind := s.config.Never(to.Addr()); kind != "" {
			return nil, nil, fmt.Errorf("%s is never read", kind)
		}
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	nc, err := dialer.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, nil, err
	}
	return s.handshake(ctx, nc, to.Addr().Unmap(), socketType, most)
}

func (s *Subscriber) handshake(ctx context.Context, nc net.Conn, host netip.Addr, socketType string,
	most int) (c *zmtp.Conn, end func(), err error) {
	s.mu.Lock()
	own := s.own[host]
	if own == nil {
		own = &places{taken: make(chan struct{}, ownReaders)}
		s.own[host] = own
	}
	own.conns++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if own.conns--; own.conns == 0 {
			delete(s.own, host)
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	if c, err = zmtp.Handshake(nc, socketType, zmtp.Limits{Message: most, Large: s.large, Own: own.taken}); err != nil {
		stop()
		leave()
		return nil, nil, err
	}
	return c, func() {
		stop()
		_ = c.Close()
		c.Free()
		leave()
	}, nil
}

const endOfReplay = math.MaxUint64

func number64(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
