package server

import (
	"sync"
	"time"

	"github.com/penstock-project/penstock/xds/publish"
)

// rejections records reported rejections of proxies across reconnections. A report stands until the
// proxy has reconnected and reported again, or was absent for Config.Absence.
type rejections struct {
	mu        sync.Mutex
	reporters map[proxyName]reporter
	wake      chan struct{} // a stream with reported rejections ended
}

type proxyName struct{ gateway, node string }

// reporter is the source of a proxy's standing report. Two streams of a proxy may overlap.
type reporter struct {
	stream *stream // nil: it ended
	list   []publish.Rejection
	until  time.Time // when the report is cleared; zero while the stream lives
}

// record stores the report of a stream for its proxy. A report without rejections needs no record.
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
		return // it reported nothing, or its successor has reported
	}
	r.reporters[st.name()] = reporter{until: until, list: r.reporters[st.name()].list}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// due removes and returns the proxies whose reports have expired, and the time of the next expiry;
// zero: none.
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

// expire clears the reports of proxies that did not reconnect; streams of other proxies report
// again. It returns the time of the next call; zero: when another stream has ended.
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
