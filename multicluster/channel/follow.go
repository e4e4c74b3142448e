package channel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

const (
	// retryInterval is short, because a peer may be starting.
	retryInterval = 100 * time.Millisecond
	// shortestPause is the first pause after a stream that ended because of the peer's messages.
	// Each further pause is twice as long.
	shortestPause = time.Second
	longestPause  = 8 * time.Second
	// calm is how long a stream must last to reset the pause.
	calm           = time.Minute
	connectTimeout = time.Second
)

// peer is a process to which this process subscribes. Guarded by Channel.mu.
type peer struct {
	address string
	id      string
	conn    Connection
	redial  context.CancelCauseFunc
	stop    context.CancelFunc
	tried   bool
	self    bool
	seen    time.Time       // when the process was last connected, or became a peer
	synced  map[string]bool // topics whose snapshot is in effect; nil: not connected
	// versions has the versions of the peer's items, by topic, then by key; no entry before a
	// snapshot and after an error.
	versions map[string]map[string]string
	logs     quota
}

// maxVersion bounds a key with its version, in bytes.
const maxVersion = 700

func (p *peer) connected() bool { return len(p.synced) > 0 }

// Run subscribes to the peers until ctx ends.
func (c *Channel) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	c.mu.Lock()
	for _, t := range c.topics {
		for _, run := range t.run {
			all.Go(func() { run(ctx) })
		}
	}
	c.mu.Unlock()
	for {
		c.mu.Lock()
		changed := c.changed
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
		case <-changed:
		}
	}
}

// errRedial ends the attempt to connect to a peer that is back. ResetConnectBackoff would race with
// the resolver in grpc-go 1.85.
var errRedial = errors.New("the peer is back")

// The caller holds c.mu.
func (c *Channel) dialAgain() {
	for _, p := range c.peers {
		if p.redial != nil && p.conn.GetState() == connectivity.TransientFailure {
			p.redial(errRedial)
		}
	}
}

var errSelf = errors.New("this process itself")

func (c *Channel) dial(p *peer) (Connection, error) {
	with := c.cfg.Credentials
	if c.cfg.CredentialsOf != nil {
		with = c.cfg.CredentialsOf(p.address)
	}
	conn, err := c.cfg.Connect(p.address, with)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	p.conn = conn
	c.mu.Unlock()
	return conn, nil
}

func (c *Channel) connect(peer string, with credentials.TransportCredentials) (Connection, error) {
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(with), grpc.WithMaxHeaderListSize(maxHeaders),
		grpc.WithWriteBufferSize(requestBuffer),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: retryInterval, MaxDelay: time.Second, Multiplier: 1.6,
				Jitter: 0.2},
			MinConnectTimeout: connectTimeout,
		}),
		// Keepalive detects a process that is frozen but still connected.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second}),
	}
	if c.cfg.Dial != nil {
		options = append(options, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return c.cfg.Dial(ctx, peer, address)
		}))
	}
	return grpc.NewClient(peer, options...)
}

func (c *Channel) log(p *peer) *slog.Logger {
	l := c.cfg.Log.With("peer", p.address)
	if c.cfg.NameOf != nil {
		if name := c.cfg.NameOf(p.address); name != "" {
			return l.With("cluster", name)
		}
	}
	return l
}

func (c *Channel) follow(ctx context.Context, p *peer) {
	defer p.stop()
	var conn Connection
	defer func() {
		if conn != nil {
			_ = conn.Close()
		}
	}()
	pause := shortestPause
	logged := codes.OK
	for {
		if conn == nil {
			var err error
			if conn, err = c.dial(p); err != nil {
				c.log(p).Error("invalid address of a peer", "error", err)
				c.lost(ctx, p, false)
				return
			}
		}
		began := time.Now()
		err := c.read(ctx, p, conn, func() {
			if c.mayLog(p) {
				c.log(p).Info("connected to a peer")
				logged = codes.OK
			}
		})
		c.lost(ctx, p, errors.Is(err, errSelf))
		if ctx.Err() != nil || errors.Is(err, errSelf) {
			return
		}
		if errors.Is(err, errRedial) {
			_ = conn.Close()
			conn = nil
			continue
		}
		if c.cfg.Exceeded != nil && exceeded(err) {
			c.cfg.Exceeded(p.address, clip(err.Error()))
		}
		if code := status.Code(err); logged == codes.OK || logged != code && c.mayLog(p) {
			c.log(p).Warn("no connection to a peer; trying again", "error", clip(err.Error()))
			logged = code
		}
		if expired(err) {
			_ = conn.Close()
			conn = nil
		}
		if time.Since(began) > calm {
			pause = shortestPause
		}
		wait := retryInterval
		if exceeded(err) {
			wait, pause = pause, min(2*pause, longestPause)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

type violation struct{ error }

func (v violation) Unwrap() error { return v.error }

// exceeded reports whether a stream ended because of the peer's messages. gRPC returns Internal for
// undecodable messages.
func exceeded(err error) bool {
	switch status.Code(err) {
	case codes.ResourceExhausted, codes.Internal, codes.InvalidArgument:
		return true
	}
	return errors.As(err, new(violation))
}

func (c *Channel) lost(ctx context.Context, p *peer, self bool) {
	c.mu.Lock()
	synced := slices.Sorted(maps.Keys(p.synced))
	if p.connected() {
		p.seen = time.Now()
	}
	p.tried, p.synced, p.self = true, nil, self
	c.notify()
	topics := maps.Clone(c.topics)
	c.mu.Unlock()
	for _, name := range synced {
		if err := topics[name].deliver(ctx, Update{Peer: p.address, Disconnected: true}); err != nil &&
			ctx.Err() == nil {
			c.log(p).Error("the disconnection of a peer could not be processed", "topic", name, "error", err)
		}
	}
}

// read receives a peer's responses until the stream ends. Topics are delivered and acknowledged
// independently.
func (c *Channel) read(ctx context.Context, p *peer, conn Connection, connected func()) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	c.mu.Lock()
	topics, tried := maps.Clone(c.topics), p.tried
	p.redial = end
	c.mu.Unlock()
	// The first attempt fails at once if the peer does not listen, because Synced waits for it.
	raw, err := conn.NewStream(ctx, &stream, method,
		grpc.ForceCodecV2(newBounded(responseShape, c.cfg.Limits.items())),
		grpc.MaxCallRecvMsgSize(c.cfg.Limits.message()), grpc.WaitForReady(tried))
	c.mu.Lock()
	p.redial = nil
	c.mu.Unlock()
	if err != nil {
		if errors.Is(context.Cause(ctx), errRedial) {
			return errRedial
		}
		return err
	}
	s := &clientStream{ClientStream: raw}
	var sending sync.Mutex // gRPC allows one sender at a time
	send := func(r *request) error {
		sending.Lock()
		defer sending.Unlock()
		return s.Send(r)
	}
	follows := make(map[string]*followed, len(topics))
	for name, t := range topics {
		f, first := c.begin(p, t)
		follows[name] = f
		if err := send(first); err != nil {
			return err
		}
	}
	var delivering sync.WaitGroup
	defer delivering.Wait()
	defer end(nil)
	incomplete := assembly{limits: c.cfg.Limits, parts: map[string]*response{}}
	for {
		r, err := s.Recv()
		if err != nil {
			if cause := context.Cause(ctx); errors.Is(cause, errExpired) || errors.Is(cause, ErrSendAgain) {
				return cause
			}
			return err
		}
		if r.GetSystemVersionInfo() == c.id {
			return errSelf
		}
		if connected != nil {
			connected()
			connected = nil
			delivering.Go(func() { end(c.untilExpiry(ctx, expires(s.Context()))) })
		}
		f := follows[r.GetTypeUrl()]
		if f == nil {
			return violation{fmt.Errorf("response for topic %.100q, which was not requested", r.GetTypeUrl())}
		}
		if !f.inEffect.CompareAndSwap(true, false) {
			const early = "a response of topic %s came before the last one was acknowledged"
			return violation{fmt.Errorf(early, f.topic.name)}
		}
		wait := c.received(p, f, r)
		whole, err := incomplete.add(r)
		if err != nil {
			return violation{fmt.Errorf("topic %s: %w", f.topic.name, err)}
		}
		// The acknowledgement lets the peer send the next message of this topic alone.
		delivering.Go(func() {
			if whole == nil {
				if !Pause(ctx, wait) {
					return
				}
			} else if err := c.receive(ctx, p, f, whole); errors.Is(err, ErrSendAgain) {
				end(err)
				return
			}
			f.inEffect.Store(true)
			// If the send fails, Recv returns the error.
			_ = send(&request{TypeUrl: f.topic.name, ResponseNonce: r.GetNonce()})
		})
	}
}

type followed struct {
	topic    *Topic
	resumed  bool
	inEffect atomic.Bool
	dropped  Problems
}

func (c *Channel) begin(p *peer, t *Topic) (f *followed, first *request) {
	f, first = &followed{topic: t}, &request{TypeUrl: t.name, Node: &corev3.Node{Id: c.id}}
	f.inEffect.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	if versions := p.versions[t.name]; versions != nil && nameable(versions) {
		first.InitialResourceVersions, f.resumed = maps.Clone(versions), true
	} else {
		delete(p.versions, t.name)
	}
	return f, first
}

func (c *Channel) received(p *peer, f *followed, r *response) time.Duration {
	in := Received{Items: len(r.GetResources()) + len(r.GetRemovedResources()), Bytes: weight(r)}
	if f.topic.drop(r, &f.dropped) {
		in.Dropped = f.dropped.Err()
	}
	if c.cfg.Received == nil {
		return 0
	}
	return c.cfg.Received(p.address, in)
}

// Pause waits for d and returns true, or returns false once ctx ends.
func Pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (c *Channel) receive(ctx context.Context, p *peer, f *followed, r *response) error {
	t, problems := f.topic, f.dropped
	f.dropped = Problems{}
	c.mu.Lock()
	u := Update{Peer: p.address, Snapshot: !p.synced[t.name] && !f.resumed, Retracted: r.GetRemovedResources()}
	c.mu.Unlock()
	for _, res := range r.GetResources() {
		it, bad := decode(res)
		if bad != nil {
			problems.Addf("%.200q: %w", res.GetName(), bad)
			continue
		}
		u.Items = append(u.Items, it)
	}
	u.Dropped = problems.Err()
	delivered := c.guard(p.address, func() error { return t.deliver(ctx, u) })
	err := errors.Join(u.Dropped, delivered)
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrSendAgain) && c.mayLog(p) {
		c.log(p).Error("an update of a peer had no effect", "topic", t.name, "error", clip(err.Error()))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.id = clip(r.GetSystemVersionInfo()); p.synced == nil {
		p.synced = map[string]bool{}
	}
	if !p.synced[t.name] {
		p.synced[t.name] = true
		c.notify()
	}
	p.note(t, r, u.Snapshot, err)
	return err
}

// The caller holds Channel.mu.
func (p *peer) note(t *Topic, r *response, snapshot bool, err error) {
	switch {
	case !t.resumes:
		return
	case err != nil: // part of the response may be in effect
		delete(p.versions, t.name)
		return
	case snapshot:
		if p.versions == nil {
			p.versions = map[string]map[string]string{}
		}
		p.versions[t.name] = make(map[string]string, len(r.GetResources()))
	case p.versions[t.name] == nil:
		return
	}
	versions := p.versions[t.name]
	for _, res := range r.GetResources() {
		versions[res.GetName()] = res.GetVersion()
		if len(versions) > maxVersions || len(res.GetName())+len(res.GetVersion()) > maxVersion {
			delete(p.versions, t.name)
			return
		}
	}
	for _, key := range r.GetRemovedResources() {
		delete(versions, key)
	}
}

func (c *Channel) mayLog(p *peer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return p.logs.take(time.Now())
}
