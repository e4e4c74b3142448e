package zmtp

import (
	"context"
	"net"
	"sync"
	"time"
)

// queued is how many messages may wait on a connection. Send drops further messages, as ZeroMQ's
// PUB sockets do.
const queued = 1024

// Publisher is a PUB socket. It sends every message to all connected SUB sockets, whatever their
// topics.
type Publisher struct {
	mu    sync.Mutex
	conns map[*Conn]chan [][]byte
}

// Serve accepts subscribers' connections until ctx ends, and then closes the listener.
func (p *Publisher) Serve(ctx context.Context, listener net.Listener) error {
	var conns sync.WaitGroup
	defer conns.Wait()
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		nc, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		} else if err != nil {
			return err
		}
		conns.Go(func() { p.publish(ctx, nc) })
	}
}

// Dial connects to a listening SUB socket until ctx ends. After a failure or the end of a
// connection, it pauses for the time again, and reconnects.
func (p *Publisher) Dial(ctx context.Context, address string, again time.Duration) {
	for {
		var dialer net.Dialer
		if nc, err := dialer.DialContext(ctx, "tcp", address); err == nil {
			p.publish(ctx, nc)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		}
	}
}

// Subscribers counts the connected SUB sockets that have subscribed.
func (p *Publisher) Subscribers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// Send sends a message to all subscribers, without waiting.
func (p *Publisher) Send(frames ...[]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, queue := range p.conns {
		select {
		case queue <- frames:
		default:
		}
	}
}

func (p *Publisher) publish(ctx context.Context, nc net.Conn) {
	c, err := Handshake(nc, Pub, Limits{Message: 64 << 10})
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	defer c.Close()
	if _, err := c.Read(); err != nil { // the peer's first subscription
		return
	}
	queue := make(chan [][]byte, queued)
	p.mu.Lock()
	if p.conns == nil {
		p.conns = map[*Conn]chan [][]byte{}
	}
	p.conns[c] = queue
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.conns, c)
		p.mu.Unlock()
	}()
	var reader sync.WaitGroup
	defer reader.Wait()
	reader.Go(func() {
		defer cancel()
		for {
			if _, err := c.Read(); err != nil {
				return
			}
		}
	})
	for {
		select {
		case <-ctx.Done():
			return
		case frames := <-queue:
			if c.Write(frames...) != nil {
				_ = c.Close()
				return
			}
		}
	}
}
