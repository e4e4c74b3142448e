package channel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"
)

const (
	// again is how long after an attempt that failed a process is dialled again: one that starts wants to be known at once.
	again = 100 * time.Millisecond
	// connectTime is how long it may take to accept a connection.
	connectTime = time.Second
)

// peer is one process that is followed. Guarded by Channel.mu.
type peer struct {
	address string
	id      string // Channel.id of the process that was there last
	conn    *grpc.ClientConn
	stop    context.CancelFunc // ends following it; nil: not begun
	tried   bool               // an attempt has failed
	self    bool               // it is this process itself
	seen    time.Time          // when it was connected last, or became a peer
	asked   map[string]bool    // topics that it has told all of; nil: it is not connected
}

func (p *peer) connected() bool { return len(p.asked) > 0 }

// Run follows the peers until its context ends.
func (c *Channel) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		c.mu.Lock()
		moved := c.moved
		for _, p := range c.peers {
			if p.stop == nil {
				var following context.Context
				following, p.stop = context.WithCancel(ctx)
				all.Go(func() { c.follow(following, p) })
			}
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		}
	}
}

// errSelf is that a peer is this process.
var errSelf = errors.New("this process itself")

// follow reads one peer, over and over, until its context ends.
func (c *Channel) follow(ctx context.Context, p *peer) {
	defer p.stop()
	conn, err := grpc.NewClient(p.address,
		grpc.WithTransportCredentials(c.cfg.Credentials),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: again, MaxDelay: time.Second, Multiplier: 1.6, Jitter: 0.2},
			MinConnectTimeout: connectTime,
		}),
		// Finds a process that is frozen but still connected.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second}),
	)
	if err != nil {
		c.cfg.Log.Error("the address of another penstock process cannot be used", "peer", p.address, "error", err)
		c.lost(ctx, p, false)
		return
	}
	defer func() { _ = conn.Close() }()
	c.mu.Lock()
	p.conn = conn
	c.mu.Unlock()
	away := false // and it was said
	for {
		err := c.read(ctx, p, conn, func() {
			c.cfg.Log.Info("another penstock process is there", "peer", p.address)
			away = false
		})
		c.lost(ctx, p, errors.Is(err, errSelf))
		if ctx.Err() != nil || errors.Is(err, errSelf) {
			return
		}
		if !away {
			c.cfg.Log.Warn("another penstock process is away; trying again", "peer", p.address, "error", err)
			away = true
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		}
	}
}

// lost notes that a peer is not connected, and takes back what it told.
func (c *Channel) lost(ctx context.Context, p *peer, self bool) {
	c.mu.Lock()
	told := slices.Sorted(maps.Keys(p.asked))
	if p.connected() {
		p.seen = time.Now()
	}
	p.tried, p.asked, p.self = true, nil, self
	c.move()
	topics := maps.Clone(c.topics)
	c.mu.Unlock()
	for _, name := range told {
		if err := topics[name].hear(ctx, News{Peer: p.address, All: true}); err != nil && ctx.Err() == nil {
			c.cfg.Log.Error("news of another penstock process had no effect", "peer", p.address, "topic", name, "error", err)
		}
	}
}

// read is one connection: all topics are asked for, and what is said is heard and acknowledged, each topic on its own. there
// is called with the first answer.
func (c *Channel) read(ctx context.Context, p *peer, conn *grpc.ClientConn, there func()) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c.mu.Lock()
	topics, tried := maps.Clone(c.topics), p.tried
	c.mu.Unlock()
	// The first attempt says at once that there is nobody: see Asked.
	raw, err := conn.NewStream(ctx, &stream, method, grpc.MaxCallRecvMsgSize(64<<20), grpc.WaitForReady(tried))
	if err != nil {
		return err
	}
	s := &clientStream{ClientStream: raw}
	var sending sync.Mutex // gRPC takes one sender at a time
	send := func(r *request) error {
		sending.Lock()
		defer sending.Unlock()
		return s.Send(r)
	}
	for name := range topics {
		if err := send(&request{TypeUrl: name, Node: &corev3.Node{Id: c.id}}); err != nil {
			return err
		}
	}
	var hearing sync.WaitGroup
	defer hearing.Wait()
	defer stop()
	for {
		r, err := s.Recv()
		if err != nil {
			return err
		}
		if r.GetSystemVersionInfo() == c.id {
			return errSelf
		}
		if there != nil {
			there()
			there = nil
		}
		t := topics[r.GetTypeUrl()]
		if t == nil {
			return fmt.Errorf("a topic that nobody asked for: %q", r.GetTypeUrl())
		}
		// The next response of this topic comes after this one's acknowledgement; other topics do not wait for it.
		hearing.Go(func() {
			c.hear(ctx, p, t, r)
			_ = send(&request{TypeUrl: t.name, ResponseNonce: r.GetNonce()}) // if it fails, so does Recv
		})
	}
}

// hear hands one response on.
func (c *Channel) hear(ctx context.Context, p *peer, t *Topic, r *response) {
	c.mu.Lock()
	n := News{Peer: p.address, All: !p.asked[t.name], Gone: r.GetRemovedResources()}
	c.mu.Unlock()
	var err error
	for _, is := range r.GetResources() {
		f, bad := decode(is)
		if bad != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", is.GetName(), bad))
			continue
		}
		n.Facts = append(n.Facts, f)
	}
	if err = errors.Join(err, t.hear(ctx, n)); err != nil && ctx.Err() == nil {
		c.cfg.Log.Error("news of another penstock process had no effect", "peer", p.address, "topic", t.name, "error", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.id = r.GetSystemVersionInfo(); p.asked == nil {
		p.asked = map[string]bool{}
	}
	if !p.asked[t.name] {
		p.asked[t.name] = true
		c.move()
	}
}
