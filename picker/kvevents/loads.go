package kvevents

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/penstock-project/penstock/picker/zmtp"
)

// SGLang publishes each scheduler's load at a second PUB socket (--load-publish-endpoint, since
// 0.5.19; scheduler_components/load_publisher.py), after each change and every second. The message
// is the MessagePack of ["LoadStat", running requests, waiting requests, tokens in the KV cache,
// tokens that fit in it, rank].

// LoadSource is a model server that publishes its load.
type LoadSource struct {
	Server    netip.AddrPort
	Publisher netip.AddrPort
}

// Load is a server's published load.
type Load struct {
	Running, Waiting int
	Tokens, Fit      int // tokens in the KV cache, and tokens that fit in the cache; 0 if unknown
}

const loadTopic = "load"

// maxLoad bounds a load message, in bytes. SGLang's messages have less than 100.
const maxLoad = 4 << 10

const maxCount = 1 << 40

type loadSource struct {
	LoadSource
	refs    int
	gone    chan struct{}          // closed without subscriptions
	problem atomic.Pointer[string] // nil while loads arrive
}

// LoadSubscription is a pool's subscription to the loads of its servers.
type LoadSubscription struct {
	subscriber *Subscriber
	sources    []*loadSource
}

// SubscribeLoads subscribes to the loads of servers. Equal sources share one connection.
func (s *Subscriber) SubscribeLoads(list []LoadSource) *LoadSubscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &LoadSubscription{subscriber: s}
	for _, key := range list {
		src := s.loads[key]
		if src == nil {
			src = &loadSource{LoadSource: key, gone: make(chan struct{})}
			src.fail(errors.New("no connection yet"))
			s.loads[key] = src
			s.begun = append(s.begun, src)
		}
		src.refs++
		out.sources = append(out.sources, src)
	}
	s.notify()
	return out
}

// Release ends the subscription.
func (n *LoadSubscription) Release() {
	if n == nil {
		return
	}
	s := n.subscriber
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, src := range n.sources {
		if src.refs--; src.refs == 0 {
			delete(s.loads, src.LoadSource)
			close(src.gone)
		}
	}
}

// Problem returns why a server's load does not arrive, or "".
func (n *LoadSubscription) Problem(server netip.AddrPort) string {
	if n == nil {
		return ""
	}
	for _, src := range n.sources {
		if text := src.problem.Load(); src.Server == server && text != nil {
			return *text
		}
	}
	return ""
}

func (s *loadSource) fail(err error) {
	text := fmt.Sprintf("load at %s: %v", s.Publisher, err)
	s.problem.Store(&text)
}

func (s *Subscriber) serveLoads(ctx context.Context, src *loadSource) {
	s.keepConnected(ctx, src.gone, func(ctx context.Context) error { return s.readLoads(ctx, src) }, func(err error) {
		src.fail(err)
		s.config.Log.Debug("a model server does not publish its load", "server", src.Server, "publisher", src.Publisher,
			"error", err)
	})
}

func (s *Subscriber) readLoads(ctx context.Context, src *loadSource) (err error) {
	defer func() {
		if v := recover(); v != nil {
			s.config.OnPanic("load of "+src.Server.String(), v, debug.Stack())
			err = errors.New("reading it panicked")
		}
	}()
	c, end, err := s.dial(ctx, src.Publisher, zmtp.Sub, maxLoad)
	if err != nil {
		return err
	}
	defer end()
	if err := c.Subscribe(loadTopic); err != nil {
		return err
	}
	for pace := (pace{}); ; {
		frames, err := c.Read()
		if err != nil {
			return err
		}
		began := time.Now()
		topic, _, stat, err := parse(frames)
		if err != nil {
			return err
		}
		if string(topic) == loadTopic { // a PUB socket may also send other topics
			load, ok := decodeLoad(stat)
			if !ok {
				return errors.New("a message is not SGLang's LoadStat")
			}
			src.problem.Store(nil)
			s.config.Load(src.Server, load)
		}
		if wait := pace.wait(messageBytes+len(stat), time.Since(began), time.Now()); wait > 0 {
			if err := pause(ctx, wait); err != nil {
				return err
			}
		}
	}
}

func decodeLoad(raw []byte) (l Load, ok bool) {
	r := reader{p: raw}
	if head := r.head(); head.kind != array || head.n < 5 || string(r.text()) != "LoadStat" {
		return l, false
	}
	for _, to := range []*int{&l.Running, &l.Waiting, &l.Tokens, &l.Fit} {
		v := r.head()
		if v.kind != integer || v.n > maxCount {
			return l, false
		}
		*to = int(v.n)
	}
	return l, !r.bad
}
