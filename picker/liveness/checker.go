package liveness

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/penstock-project/penstock/picker/upstream"
)

const (
	// Within is how long Dead waits for proof that a server is dead while the server answers
	// probes. silence is how long Dead waits without an answer, because a dying engine answers
	// late. pause is the time between two probes.
	Within, silence = 500 * time.Millisecond, 2 * time.Second
	pause           = 50 * time.Millisecond
	// Above maxProbes concurrent probes or maxWaiting concurrent calls, Dead returns false.
	maxProbes, maxWaiting = 64, 4096
)

// Config configures a Checker.
type Config struct {
	// Never returns why an address must not be probed, or ""; may be nil.
	Never func(netip.Addr) string
	// Transport returns the transport for probes. The default keeps no connections.
	Transport func(upstream.Protocol) http.RoundTripper
}

// Checker probes model servers. Its methods are safe for concurrent use.
type Checker struct {
	config Config
	probes chan struct{}

	mu      sync.Mutex
	waiting int
	servers map[netip.AddrPort]*server
}

type server struct {
	waiting int
	running chan struct{} // closed at the end of the current probe; nil without one
	ended   time.Time
	last    result
}

type result uint8

const (
	silent result = iota
	works
	unreachable // no connection, possibly only from this process
	dead
)

// New returns a Checker.
func New(c Config) *Checker {
	if c.Never == nil {
		c.Never = func(netip.Addr) string { return "" }
	}
	if c.Transport == nil {
		c.Transport = func(by upstream.Protocol) http.RoundTripper { return by.Transport(0) }
	}
	return &Checker{config: c, probes: make(chan struct{}, maxProbes), servers: map[netip.AddrPort]*server{}}
}

// Dead reports whether a probe proves that a server is dead. It returns false after Within if the
// server answers probes, and after up to silence + Within if not.
func (c *Checker) Dead(ctx context.Context, addr netip.AddrPort, by upstream.Protocol) bool {
	if c.config.Never(addr.Addr()) != "" {
		return false
	}
	s := c.enter(addr)
	if s == nil {
		return false
	}
	defer c.leave(addr, s)
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	began, next := time.Now(), time.NewTimer(pause)
	defer next.Stop()
	for ctx.Err() == nil {
		switch found := c.probed(ctx, s, addr, by); {
		case found == dead:
			return true
		case found == works && time.Since(began) >= Within:
			return false
		}
		next.Reset(pause)
		select {
		case <-ctx.Done():
			return false
		case <-next.C:
		}
	}
	return false
}

func (c *Checker) enter(addr netip.AddrPort) *server {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting >= maxWaiting {
		return nil
	}
	c.waiting++
	s := c.servers[addr]
	if s == nil {
		s = new(server)
		c.servers[addr] = s
	}
	s.waiting++
	return s
}

func (c *Checker) leave(addr netip.AddrPort, s *server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting--
	if s.waiting--; s.waiting == 0 {
		delete(c.servers, addr)
	}
}

func (c *Checker) probed(ctx context.Context, s *server, addr netip.AddrPort, by upstream.Protocol) (found result) {
	c.mu.Lock()
	running := s.running
	switch {
	case running != nil:
		c.mu.Unlock()
		select {
		case <-running:
		case <-ctx.Done():
			return silent
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		return s.last
	case time.Since(s.ended) < pause:
		defer c.mu.Unlock()
		return s.last
	}
	running = make(chan struct{})
	s.running = running
	c.mu.Unlock()

	defer func() { // also after a panic
		c.mu.Lock()
		defer c.mu.Unlock()
		s.running, s.ended, s.last = nil, time.Now(), found
		close(running)
	}()
	// Several requests share the probe, so it continues after this request's end.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Within)
	defer cancel()
	select {
	case c.probes <- struct{}{}:
		defer func() { <-c.probes }()
		if found, _ = c.probe(ctx, addr, by); found == unreachable {
			found = works
		}
	default:
	}
	return found
}

// probe requests a server's /health once. A status of 500 or more, or the error ECONNREFUSED, shows
// a dead server. Any other status, or a response in another protocol, shows a working server.
func (c *Checker) probe(ctx context.Context, addr netip.AddrPort, by upstream.Protocol) (found result, why string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, by.URL(addr)+"/health", nil)
	if err != nil {
		return works, ""
	}
	request.Header.Set("User-Agent", "penstock")
	response, err := c.config.Transport(by).RoundTrip(request)
	if err != nil {
		return failure(ctx, err)
	}
	_ = response.Body.Close()
	if response.StatusCode >= http.StatusInternalServerError {
		return dead, "/health answers " + strconv.Itoa(response.StatusCode)
	}
	return works, ""
}

func failure(ctx context.Context, err error) (found result, why string) {
	var dial *net.OpError
	dialing := errors.As(err, &dial) && dial.Op == "dial"
	switch {
	case err == nil:
		return works, ""
	case errors.Is(err, syscall.ECONNREFUSED) && dialing:
		return dead, "connection refused"
	case ctx.Err() != nil:
		return silent, "no answer at /health"
	case dialing:
		return unreachable, dial.Err.Error()
	}
	return works, ""
}
