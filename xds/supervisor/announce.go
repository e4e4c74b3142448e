package supervisor

import (
	"context"
	"net"
	"net/url"
	"strings"
	"time"
)

// openTimeout bounds the wait for an acknowledged address, which is then announced anyway. A
// finding reports if another process has the port.
const openTimeout = 5 * time.Second

func (s *Supervisor) announce(ctx context.Context, gateway string) {
	announced := ""
	for ctx.Err() == nil {
		urls, rev, err := s.cfg.ControlPlane.Serving(ctx, gateway)
		if err != nil {
			return
		}
		if now := strings.Join(urls, " "); now != announced {
			if len(urls) == 0 && !s.wanted(gateway) {
				return
			}
			for _, u := range urls {
				waitOpen(ctx, u, openTimeout)
			}
			s.cfg.Announce(gateway, urls)
			announced = now
		}
		if s.cfg.ControlPlane.After(ctx, rev) != nil {
			return
		}
	}
}

// Envoy acknowledges a listener before its workers listen.
func waitOpen(ctx context.Context, address string, timeout time.Duration) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
		if err == nil {
			_ = conn.Close()
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}
