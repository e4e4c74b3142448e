package server

import (
	"sync"
	"time"
)

// refusals is what was reported of proxies that may be gone for a moment only: what a proxy refuses does not become good
// because its connection was cut. It stays until the proxy, back again, has said all that it refuses now, or has been
// away for too long.
type refusals struct {
	mu   sync.Mutex
	said map[proxyName]voice
	wake chan struct{} // a stream that had said something ended
}

// proxyName is one proxy across its streams.
type proxyName struct{ gateway, node string }

// voice is who said what is reported of a proxy. Two streams of it may overlap.
type voice struct {
	stream *stream   // nil: it ended
	until  time.Time // when what it said is taken back; zero as long as it lives
}

// speak notes that a stream has spoken for its proxy; with nothing to complain of there is nothing to keep.
func (r *refusals) speak(st *stream, complains bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if complains {
		r.said[st.name()] = voice{stream: st}
	} else {
		delete(r.said, st.name())
	}
}

// ofAnother says whether what is reported of a stream's proxy was said by another stream.
func (r *refusals) ofAnother(st *stream) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.said[st.name()]
	return ok && v.stream != st
}

// keep keeps what a stream has said that ended.
func (r *refusals) keep(st *stream, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.said[st.name()].stream != st {
		return // nothing, or its successor speaks
	}
	r.said[st.name()] = voice{until: until}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// due takes out the proxies whose time has come, and says when the next one's does; zero: there is none.
func (r *refusals) due(now time.Time) (over []proxyName, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p, v := range r.said {
		switch {
		case v.until.IsZero():
		case !now.Before(v.until):
			over = append(over, p)
			delete(r.said, p)
		case next.IsZero() || v.until.Before(next):
			next = v.until
		}
	}
	return over, next
}

// expire takes back what was said of proxies that did not come back, or lets them say what they refuse now. It returns
// when it should be called again; zero: when another stream has ended.
func (s *Server) expire() time.Time {
	over, next := s.refusals.due(s.config.Now())
	for _, p := range over {
		if !s.speaks(p) {
			s.config.Reports.Refused(p.gateway, p.node, nil)
		}
	}
	return next
}

// speaks lets the streams of a proxy say what they refuse; false if it has none.
func (s *Server) speaks(p proxyName) bool {
	s.mu.Lock()
	var streams []*stream
	if g := s.gateways[p.gateway]; g != nil {
		for st := range g.streams {
			if st.node.GetId() == p.node {
				streams = append(streams, st)
			}
		}
	}
	s.mu.Unlock()
	for _, st := range streams {
		st.mu.Lock()
		st.report()
		st.mu.Unlock()
	}
	return len(streams) > 0
}
