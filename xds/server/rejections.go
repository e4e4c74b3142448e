package server

import (
	"sync"
	"time"

	"github.com/penstock-project/penstock/xds/publish"
)

// rejections has each proxy's last report. A report is valid until the proxy reports again, or was
// disconnected for Config.Absence.
type rejections struct {
	mu        sync.Mutex
	reporters map[proxyName]reporter
	wake      chan struct{}
}

type proxyName struct{ gateway, node string }

// stream is the stream that reported last: two streams of a proxy may overlap.
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
		return
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

// expire clears expired reports, or lets the streams of a reconnected proxy report again. It
// returns when to call it again, or zero.
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
