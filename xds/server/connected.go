package server

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Connected is how many streams there are of a gateway; of all, if it is "".
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

// trouble counts the proxies that lack something, and those that refuse something.
func (s *Server) trouble() (behind, refusing int) {
	for _, st := range s.streams() {
		st.mu.Lock()
		lacks, refuses := false, false
		if !st.closed {
			lacks, refuses = st.machine.Trouble()
		}
		st.mu.Unlock()
		if lacks {
			behind++
		}
		if refuses {
			refusing++
		}
	}
	return behind, refusing
}

// streams is a copy of the list of all streams, to go through without holding mu.
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

// count tells how many streams a gateway has now. Called with mu held, so that the last word is the right one.
func (s *Server) count(name string, g *gateway) {
	if s.config.Count != nil {
		s.config.Count(name, len(g.streams))
	}
}

// Recheck asks each stream whether its proxy may still read its gateway, and ends those that may not: to be called when what
// Authorize goes by has changed.
func (s *Server) Recheck() {
	for _, st := range s.streams() {
		st.recheck()
	}
}

func (st *stream) recheck() {
	if st.still == nil {
		return
	}
	if err := st.still(); err != nil {
		st.server.config.Log.Warn("proxy refused from now on", "gateway", st.gateway, "node", st.node.GetId(), "error", err)
		st.end(status.Error(codes.PermissionDenied, err.Error()))
	}
}
