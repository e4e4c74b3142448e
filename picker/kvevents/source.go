package kvevents

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/picker/zmtp"
)

// Source is a model server that publishes KV events.
type Source struct {
	Server    netip.AddrPort // the server's address in picks
	Pod       string         // a topic may have this name instead of an address
	Publisher netip.AddrPort
	// Publisher is the server's PUB socket; zero if the server dials. Replay is its ROUTER socket,
	// which sends lost messages again; zero for none.
	Replay netip.AddrPort
	// Topic is the prefix of the topics to read.
	Topic string
}

type source struct {
	Source
	refs  int
	ended bool // the prefix.Server was released; guarded by the field reading
	gone  chan struct{}

	restart    atomic.Bool            // another source of the server ended, and all its reports were dropped
	problem    atomic.Pointer[string] // nil while a connection is open
	failures   atomic.Uint64
	unreplayed atomic.Pointer[string]

	reading  sync.Mutex // held while a connection is read, at most one at a time
	stream   stream
	pace     pace
	replayed time.Time // last replay; guarded by reading

	mu     sync.Mutex
	conn   *zmtp.Conn
	lostAt time.Time // end of the last connection; zero after the source's reports were dropped
}

const (
	lostAfter = 10 * time.Second
	// replayEvery is the shortest time between two replays of a server.
	replayEvery = time.Second
	// The end of a connection is no failure if it lasted for tried.
	tried = 10 * time.Second
)

var (
	errReleased = errors.New("KV events: no pool subscribes to the server any more")
	errPace     = errors.New("KV events: the server sends faster than its events are read")
)

type pace struct {
	last time.Time
	debt time.Duration
}

const (
	bytesPerSecond = 8 << 20
	messageBytes   = 256 // a message counts with its size plus this number of bytes
	cpuShare       = 5   // a server takes at most 1/cpuShare of a core
	maxDebt        = 8 * time.Second
)

func (p *pace) wait(size int, took time.Duration, now time.Time) time.Duration {
	if !p.last.IsZero() {
		p.debt = max(0, p.debt-now.Sub(p.last))
	}
	p.last = now
	p.debt += max(time.Duration(size)*time.Second/bytesPerSecond, cpuShare*took)
	return max(0, p.debt-maxDebt)
}

func (s *source) paid(frames [][]byte, took time.Duration) time.Duration {
	size := messageBytes
	for _, f := range frames {
		size += len(f)
	}
	return s.pace.wait(size, took, time.Now())
}

func (s *source) disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		_ = s.conn.Close()
	}
}

func (s *source) attach(c *zmtp.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		_ = s.conn.Close()
	}
	s.conn = c
}

func (s *source) detach(c *zmtp.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == c {
		s.conn, s.lostAt = nil, time.Now()
	}
}

func (s *source) lapse(now time.Time) {
	s.stream.tree.server.Expire(now)
	s.mu.Lock()
	lost := s.conn == nil && !s.lostAt.IsZero() && now.Sub(s.lostAt) >= lostAfter
	if lost {
		s.lostAt = time.Time{}
	}
	s.mu.Unlock()
	if lost && s.reading.TryLock() {
		defer s.reading.Unlock()
		s.stream.forget()
	}
}

func (s *source) fail(err error) {
	text := err.Error()
	s.problem.Store(&text)
	s.failures.Add(1)
}

func (s *source) incomplete(known prefix.Knowledge) string {
	if text := s.unreplayed.Load(); text != nil {
		return *text
	}
	switch {
	case known == prefix.Guessed:
		return "KV events: it has published none"
	case s.Replay.IsValid():
		return "KV events: the replay does not reach back to the first one"
	}
	return "KV events: earlier ones are missing, without a replayPort"
}

func (s *source) connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn != nil
}

func (s *Subscriber) follow(ctx context.Context, src *source, c *zmtp.Conn, first [][]byte) (err error) {
	src.attach(c)
	src.reading.Lock()
	defer src.reading.Unlock()
	defer src.detach(c)
	defer func() {
		if v := recover(); v != nil {
			s.config.OnPanic("KV events of "+src.Server.String(), v, debug.Stack())
			src.stream.forget()
			err = errors.New("KV events: reading them panicked")
		}
	}()
	if src.ended {
		return errReleased
	}
	if src.pace.wait(0, 0, time.Now()) > 0 { // close the connection instead of waiting; the caller reconnects later
		return errPace
	}
	if src.restart.Swap(false) {
		src.stream.forget()
	}
	src.problem.Store(nil)
	if src.Replay.IsValid() {
		s.replay(ctx, src, src.stream.next)
	}
	for frames := first; ; {
		if frames == nil {
			if frames, err = c.Read(); err != nil {
				return err
			}
		}
		wait, err := s.receive(ctx, src, frames)
		if err != nil {
			return err
		}
		if frames = nil; wait > 0 {
			c.Free()
			if err := pause(ctx, wait); err != nil {
				return err
			}
		}
	}
}

// receive applies one message, after a replay of missing messages. It returns the pause before the
// next read.
func (s *Subscriber) receive(ctx context.Context, src *source, frames [][]byte) (wait time.Duration, err error) {
	_, seq, batch, err := parse(frames)
	if err != nil {
		src.stream.forget()
		return src.paid(frames, 0), err
	}
	if from, missing := src.stream.missing(seq); missing && src.Replay.IsValid() {
		s.replay(ctx, src, from)
	}
	began := time.Now()
	err = src.stream.message(seq, batch)
	return src.paid(frames, time.Since(began)), err
}

// replay requests the messages from a sequence number on, and applies them. If the replay fails,
// the server's reports stay until the next message shows a gap.
func (s *Subscriber) replay(ctx context.Context, src *source, from uint64) {
	if pause(ctx, time.Until(src.replayed.Add(replayEvery))) != nil {
		return
	}
	src.replayed = time.Now()
	if err := s.readReplay(ctx, src, from); err != nil {
		text := fmt.Sprintf("replay at %s: %v", src.Replay, err)
		src.unreplayed.Store(&text)
		s.config.Log.Debug("a model server does not replay its KV events", "server", src.Server, "error", err)
	} else {
		src.unreplayed.Store(nil)
	}
	if src.stream.started {
		src.stream.replayed = src.stream.next
	}
}

const (
	maxReplayed   = 10_000 // messages of a replay, as many as vLLM keeps
	replayTimeout = 10 * time.Second
	// replayIdle bounds the wait for the next message of a replay. A ROUTER socket drops messages,
	// even the last one of the replay, if 1,000 already wait for the connection.
	replayIdle    = 2 * time.Second
	replayAnswers = 16
)

func (s *Subscriber) readReplay(ctx context.Context, src *source, from uint64) error {
	ctx, cancel := context.WithTimeout(ctx, replayTimeout)
	defer cancel()
	for range replayAnswers {
		more, err := s.readReplayed(ctx, src, from)
		if err != nil || !more {
			return err
		}
		from = src.stream.next
	}
	return fmt.Errorf("it is incomplete after %d answers", replayAnswers)
}

func (s *Subscriber) readReplayed(ctx context.Context, src *source, from uint64) (more bool, err error) {
	c, end, err := s.dial(ctx, src.Replay, zmtp.Dealer, 0)
	if err != nil {
		return false, err
	}
	defer end()
	if err := c.Write(nil, number64(from)); err != nil {
		return false, err
	}
	for n := range maxReplayed {
		idle := time.AfterFunc(replayIdle, func() { _ = c.Close() })
		frames, err := c.Read()
		idle.Stop()
		if err != nil {
			if n > 0 && ctx.Err() == nil {
				return true, nil
			}
			return false, err
		}
		if len(frames) == 4 && len(frames[0]) == 0 { // vLLM 0.32 sends an empty frame before the topic
			frames = frames[1:]
		}
		_, seq, batch, err := parse(frames)
		switch {
		case err != nil:
			return false, err
		case seq == endOfReplay:
			return false, nil
		case n > 0 && seq > src.stream.next:
			return true, nil
		}
		began := time.Now()
		if !src.stream.started || seq >= src.stream.next {
			err = src.stream.message(seq, batch)
		}
		if wait := src.paid(frames, time.Since(began)); err == nil && wait > 0 {
			err = errPace
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}
