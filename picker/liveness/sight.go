package liveness

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/penstock-project/penstock/picker/upstream"
)

// lookTime is how long a probe of Look waits for an answer.
const lookTime = 700 * time.Millisecond

// Sight keeps the results of one server's probes. Its zero value has none. It is not safe for
// concurrent use.
type Sight struct {
	answered bool // the server has answered a probe
	misled   bool // requests succeed although probes fail: they fail from here only
	began    time.Time
	why      string // of the last probe; "" if that showed a working server
	since    time.Time
}

// Shown is further evidence that a server works.
type Shown struct {
	Good time.Time // when a request last succeeded there; zero: never
	Read bool      // its metrics page was read
}

// Look probes a server once. take records the result, and returns whether the sight now shows that
// the server works, and whether it is up again.
func (c *Checker) Look(ctx context.Context, addr netip.AddrPort,
	by upstream.Protocol) (take func(*Sight, Shown) (up, again bool)) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	found, why := works, ""
	if c.config.Never(addr.Addr()) == "" {
		found, why = c.probe(ctx, addr, by)
	}
	return taking(found, why, began)
}

// Reach is Look for a gateway of another cluster: it connects, and sends no request, which the
// gateway would log.
func (c *Checker) Reach(ctx context.Context, addr netip.AddrPort) (take func(*Sight, Shown) (up, again bool)) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if c.config.Never(addr.Addr()) != "" {
		return taking(works, "", began)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr.String())
	if err == nil {
		_ = conn.Close()
	}
	found, why := failure(ctx, err)
	return taking(found, why, began)
}

func taking(found result, why string, began time.Time) func(*Sight, Shown) (up, again bool) {
	return func(s *Sight, shown Shown) (up, again bool) { return s.take(found, why, began, shown) }
}

// take records the result of a probe. One without an answer shows a server that is down only if the
// server was reached before: it may speak a protocol that has no answer, or not be reachable from
// here.
func (s *Sight) take(found result, why string, began time.Time, shown Shown) (up, again bool) {
	before := s.why
	if s.misled = s.misled || before != "" && shown.Good.After(s.began); found == works {
		s.answered, s.misled = true, false
	}
	s.answered = s.answered || shown.Read
	s.began = began
	if s.why = why; found == works || s.misled || found != dead && !s.answered {
		s.why = ""
	}
	if before == "" {
		s.since = began
	}
	return s.why == "", found == works && before != ""
}

// Probed reports whether the server was probed.
func (s *Sight) Probed() bool { return s != nil && !s.began.IsZero() }

// Down describes why the server is down, and since when the probes show it; "" if it is not. A
// request that has succeeded since the last probe shows a working server.
func (s *Sight) Down(good time.Time) (why string, since time.Time) {
	if s == nil || s.why == "" || good.After(s.began) {
		return "", time.Time{}
	}
	return s.why, s.since
}
