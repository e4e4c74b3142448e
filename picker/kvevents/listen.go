package kvevents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/penstock-project/penstock/picker/zmtp"
)

const (
	maxConns  = 4096
	maxOfHost = 32
	// A short connection counts against the limits for againAfter after its end. This limits how
	// often a publisher of invalid events can connect.
	againAfter = 5 * time.Second
)

func (s *Subscriber) accept(ctx context.Context, listener net.Listener) {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	var mu sync.Mutex
	total, ofHost := 0, map[netip.Addr]int{}
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		nc, err := listener.Accept()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.config.Log.Warn("a publisher of KV events could not connect", "error", err)
			_ = pause(ctx, 100*time.Millisecond)
			continue
		}
		host := hostOf(nc)
		mu.Lock()
		reject := total >= maxConns || ofHost[host] >= maxOfHost || !s.expects(host)
		if !reject {
			total++
			ofHost[host]++
		}
		mu.Unlock()
		if reject {
			_ = nc.Close()
			continue
		}
		conns.Go(func() {
			began := time.Now()
			err := s.publisher(ctx, nc, host)
			s.config.Log.Debug("a publisher of KV events is gone", "address", nc.RemoteAddr(), "error", err)
			if time.Since(began) < tried {
				_ = pause(ctx, againAfter)
			}
			mu.Lock()
			defer mu.Unlock()
			total--
			if ofHost[host]--; ofHost[host] == 0 {
				delete(ofHost, host)
			}
		})
	}
}

func hostOf(nc net.Conn) netip.Addr {
	addr, _ := netip.ParseAddrPort(nc.RemoteAddr().String())
	return addr.Addr().Unmap().WithZone("")
}

func (s *Subscriber) expects(host netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.dialled[host]) > 0
}

func (s *Subscriber) publisher(ctx context.Context, nc net.Conn, host netip.Addr) error {
	c, end, err := s.handshake(ctx, nc, host, zmtp.Sub, 0)
	if err != nil {
		s.failAt(host, err)
		return err
	}
	defer end()
	src, frames, err := s.identify(c, host)
	if err != nil {
		s.failAt(host, err)
		return err
	}
	released := make(chan struct{})
	defer close(released)
	go func() { // until the connection ends
		select {
		case <-src.gone:
			_ = c.Close()
		case <-released:
		}
	}()
	err = s.follow(ctx, src, c, frames)
	src.fail(errors.Join(errors.New("KV events: the publisher's connection has ended"), err))
	return err
}

func (s *Subscriber) identify(c *zmtp.Conn, host netip.Addr) (src *source, frames [][]byte, err error) {
	if err := c.Subscribe(""); err != nil {
		return nil, nil, err
	}
	if frames, err = c.Read(); err != nil {
		return nil, nil, err
	}
	topic, _, _, err := parse(frames)
	if err != nil {
		return nil, nil, err
	}
	src, err = s.publishedBy(host, string(topic))
	return src, frames, err
}

func (s *Subscriber) failAt(host netip.Addr, err error) {
	s.mu.Lock()
	list := slices.Clone(s.dialled[host])
	s.mu.Unlock()
	err = fmt.Errorf("KV events: the connection of a publisher at %s: %w", host, err)
	for _, src := range list {
		if !src.connected() {
			src.fail(err)
		}
	}
}

// publishedBy returns the source of the server at host that a topic names. A topic is kv@POD@MODEL,
// where POD is an address or a pod's name. If host has only one server, any topic matches.
func (s *Subscriber) publishedBy(host netip.Addr, topic string) (*source, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.dialled[host]
	if len(list) == 1 {
		return list[0], nil
	}
	pod := podOf(topic)
	for _, src := range list {
		if pod == src.Server.String() || pod == src.Pod && pod != "" {
			return src, nil
		}
	}
	return nil,
		fmt.Errorf(
			"KV events: %d model servers have the address %s, and the topic %.80q names none of them: use "+
				"kv@ADDRESS:PORT@MODEL", len(list), host, topic)
}

func podOf(topic string) string {
	rest, ok := bytes.CutPrefix([]byte(topic), []byte("kv@"))
	if !ok {
		return ""
	}
	pod, _, _ := bytes.Cut(rest, []byte("@"))
	return string(pod)
}
