package server

import (
	"sync"
	"time"

	"github.com/penstock-project/penstock/xds/publish"
)

// A report is valid until the proxy has reconnected and reported again, or was disconnected for
// Config.Absence.
type rejections struct {
	mu        sync.Mutex
	reporters map[proxyName]reporter
	wake      chan struct{}
}

type proxyName struct{ gateway, node string }

// Two streams of a proxy may overlap. The field `stream` is the one with the valid report.
type reporter struct {
	stream *stream
	list   []publish.Rejection
	until  time.Time // zero while the stream lives
}

func (r *rejections) record(st *stream, list []publish.Rejection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(list) > 0 {
		r.reporters[st.name()] = reporter{stream: st, list: list}
	} else {
		delete(r.reporters, st.name())
	}
}

func (r *rejections) ofAnother(st *stream) []publish.Rejection {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := r.reporters[st.name()]; v.stream != st {
		return v.list
	}
	return nil
}

func (r *rejections) expireAt(st *stream, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reporters[st.name()].stream != st {
		return // the stream has no report, or a later stream has reported
	}
	r.reporters[st.name()] = reporter{until: until, list: r.reporters[st.name()].list}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *rejections) due(now time.Time) (expired []proxyName, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p, v := range r.reporters {
		switch {
		case v.until.IsZero():
		case !now.Before(v.until):
			expired = append(expired, p)
			delete(r.reporters, p)
		case next.IsZero() || v.until.Before(next):
			next = v.until
		}
	}
	return expired, next
}

// If a proxy has reconnected, its streams report again. The result is the time of the next call, or
// zero.
func (s *Server) expire() time.Time {
	expired, next := s.rejections.due(s.config.Now())
	for _, p := range expired {
		if !s.reportAgain(p) {
			s.config.Reports.Rejected(p.gateway, p.node, nil)
		}
	}
	return next
}

func (s *Server) reportAgain(p proxyName) bool {
	reported := false
	for _, st := range s.streams() {
		if st.name() == p {
			st.reportNow()
			reported = true
		}
	}
	return reported
}

func (st *stream) reportNow() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.report()
}
