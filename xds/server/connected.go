package server

import (
	"context"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/xds/admission"
)

// Connected returns the number of streams of a gateway, or of all gateways if "".
func (s *Server) Connected(gateway string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for name, g := range s.gateways {
		if gateway == "" || gateway == name {
			n += len(g.streams)
		}
	}
	return n
}

func (s *Server) lag() (behind, rejecting int) {
	for _, st := range s.streams() {
		lacks, rejects := st.lag()
		if lacks {
			behind++
		}
		if rejects {
			rejecting++
		}
	}
	return behind, rejecting
}

func (st *stream) lag() (lacks, rejects bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.closed {
		return false, false
	}
	return st.machine.Lag()
}

func (s *Server) streams() []*stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*stream
	for _, g := range s.gateways {
		for st := range g.streams {
			out = append(out, st)
		}
	}
	return out
}

// The caller holds s.mu, so that the last call of Config.Count has the latest number.
func (s *Server) count(name string, g *gateway) {
	if s.config.Count != nil {
		s.config.Count(name, len(g.streams))
	}
}

// Recheck ends streams whose proxies may no longer read their gateway.
func (s *Server) Recheck() {
	for _, st := range s.streams() {
		st.recheck()
	}
}

func (st *stream) recheck() {
	next, err := st.proxy.Permitted(st.gateway)
	if err != nil {
		st.server.logDenied(st.peer, st.node, err)
		st.end(status.Error(codes.PermissionDenied, err.Error()))
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.checkAt = next
}

func (st *stream) checkDue() time.Time {
	st.mu.Lock()
	next := st.checkAt
	st.mu.Unlock()
	if next.IsZero() || st.server.config.Now().Before(next) {
		return next
	}
	st.recheck()
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.checkAt
}

func (s *Server) logDenied(peer string, node *corev3.Node, reason error) {
	s.config.Log.Warn("connection denied", "peer", peer, "node", node.GetId(), "cluster", node.GetCluster(), "reason",
		reason)
}

// Without the port, each retry logs the same line.
func peerAddress(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return ""
	}
	if at := admission.Address(p.Addr); at.IsValid() {
		return at.String()
	}
	return ""
}
