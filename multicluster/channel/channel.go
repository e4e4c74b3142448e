package channel

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Fact is one thing that a process tells the others.
type Fact struct {
	Name string
	Body []byte
	// TTL is how long it holds, by whom it was told last. 0: until it is taken back, or its teller is gone.
	TTL time.Duration
}

// News is what one other process says about a topic.
type News struct {
	// Peer is the address of the process.
	Peer string
	// All says that what the process told before holds only if it is among Facts: it was asked anew, or is gone.
	All bool
	// Facts are new or were told again; Gone are names of those that were taken back.
	Facts []Fact
	Gone  []string
}

// Config is what a Channel needs.
type Config struct {
	// Peers are the addresses ("host:port") at which the other processes serve. SetPeers changes them.
	Peers []string
	// Credentials are how the other processes are dialled; nil: in cleartext. How they are served is its caller's business.
	Credentials credentials.TransportCredentials
	// Patience is how long one that has not acknowledged is waited for. Default: 750 ms. That leaves a pick, which may take 2 s,
	// time for all else, costs it once where a process is frozen, and is enough for one that a busy machine seldom runs: with
	// 250 ms, at 7 % of a core, picks named endpoints that Envoy did not have yet, and pools that fail closed answered 503.
	Patience time.Duration
	// Grace is how long a peer that is away is taken to be coming back. Default: 5 s.
	Grace time.Duration
	Log   *slog.Logger // nil: nobody is told
}

// Channel is both ends of one process. Safe for use by many.
type Channel struct {
	cfg Config
	id  string // tells this process from others that were given the same addresses

	mu        sync.Mutex
	topics    map[string]*Topic
	followers map[*follower]struct{} // processes that read here
	peers     map[string]*peer       // processes that we read
	moved     chan struct{}          // closed and replaced when peers, or what is known of them, change
}

// New makes a channel. Make its topics next, then register and run it.
func New(c Config) *Channel {
	c.Patience, c.Grace = cmp.Or(c.Patience, 750*time.Millisecond), cmp.Or(c.Grace, 5*time.Second)
	if c.Credentials == nil {
		c.Credentials = insecure.NewCredentials()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	out := &Channel{
		cfg: c, id: rand.Text(), topics: map[string]*Topic{}, followers: map[*follower]struct{}{}, peers: map[string]*peer{}, moved: make(chan struct{}),
	}
	out.SetPeers(c.Peers...)
	return out
}

// SetPeers says where the other processes are from now on. The process's own address may be among them.
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
	c.move()
}

// move wakes whoever waits for a change of the peers. mu is held.
func (c *Channel) move() {
	close(c.moved)
	c.moved = make(chan struct{})
}

// until returns when a condition holds, which is asked with mu held, or with the context's error.
func (c *Channel) until(ctx context.Context, holds func() bool) error {
	for {
		c.mu.Lock()
		done, moved := holds(), c.moved
		c.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		}
	}
}

// Asked returns when every peer has told all that it knows, and it was heard, or cannot be reached; or with the context's
// error. Run must run.
func (c *Channel) Asked(ctx context.Context) error {
	if err := c.until(ctx, func() bool {
		for _, p := range c.peers {
			if !p.tried && len(p.asked) < len(c.topics) {
				return false
			}
		}
		return true
	}); err != nil {
		return fmt.Errorf("another process does not answer: %w", err)
	}
	return nil
}

// Alone says that no other process can be told anything: there are none, or they have been away for longer than a restart
// takes (Config.Grace).
func (c *Channel) Alone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.peers {
		if p.connected() || !p.self && time.Since(p.seen) < c.cfg.Grace {
			return false
		}
	}
	return true
}

// Topic is what a channel tells and hears of one kind.
type Topic struct {
	channel *Channel
	name    string
	hear    func(context.Context, News) error

	// Guarded by Channel.mu.
	seq     uint64 // counts what was told
	facts   map[string]told
	changed chan struct{} // closed and replaced when a follower has acknowledged, or is gone
}

// told is a fact of ours.
type told struct {
	body  []byte
	until time.Time // zero: without end
	seq   uint64
}

// Topic makes a topic. hear is called with what each other process says, one call at a time for each of them, and returns
// when that is in effect here; an error is logged, and nothing is told again for it. Call it before Run and Register.
func (c *Channel) Topic(name string, hear func(context.Context, News) error) *Topic {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &Topic{channel: c, name: name, hear: hear, facts: map[string]told{}, changed: make(chan struct{})}
	c.topics[name] = t
	return t
}

// Tell says facts, also those that were said before, to every process that follows, now and later.
func (t *Topic) Tell(facts ...Fact) {
	t.channel.mu.Lock()
	defer t.channel.mu.Unlock()
	for _, f := range facts {
		t.seq++
		next := told{body: f.Body, seq: t.seq}
		if f.TTL > 0 {
			next.until = time.Now().Add(f.TTL)
		}
		t.facts[f.Name] = next
	}
	t.poke()
}

// Withdraw takes facts back.
func (t *Topic) Withdraw(names ...string) {
	t.channel.mu.Lock()
	defer t.channel.mu.Unlock()
	for _, name := range names {
		delete(t.facts, name)
	}
	t.seq++
	t.poke()
}

// poke has every follower told what is new. Channel.mu is held.
func (t *Topic) poke() {
	for f := range t.channel.followers {
		f.poke()
	}
}

// Heard returns when what was told until now is in effect at every process that follows and at every peer, but for those that
// are late, or with the context's error.
func (t *Topic) Heard(ctx context.Context) error {
	c := t.channel
	c.mu.Lock()
	target, began := t.seq, time.Now()
	c.mu.Unlock()
	for {
		c.mu.Lock()
		left := t.behind(target, began, time.Now())
		changed := t.changed
		c.mu.Unlock()
		if left <= 0 {
			return nil
		}
		late := time.NewTimer(left)
		select {
		case <-ctx.Done():
			late.Stop()
			return fmt.Errorf("tell others about %s: %w", t.name, ctx.Err())
		case <-changed:
		case <-late.C:
		}
		late.Stop()
	}
}

// behind is how long to wait until the last process that has not acknowledged a target, told at a time, is late; 0: none is
// waited for. Channel.mu is held.
func (t *Topic) behind(target uint64, told, now time.Time) (left time.Duration) {
	following := map[string]bool{}
	for f := range t.channel.followers {
		g := f.following[t.name]
		if g == nil {
			continue
		}
		if following[f.id] = true; g.acked >= target {
			continue
		}
		since := told
		if g.acked < g.sent { // it is being waited for already
			since = g.sentAt
		}
		left = max(left, t.channel.cfg.Patience-now.Sub(since))
	}
	for _, p := range t.channel.peers {
		if p.asked[t.name] && !following[p.id] { // it is there, and about to follow
			left = max(left, t.channel.cfg.Patience-now.Sub(told))
		}
	}
	return left
}
