package liveness

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/penstock-project/penstock/picker/upstream"
)

const lookTime = 550 * time.Millisecond

// Sight keeps the results of Look and Reach for one server. It is not safe for concurrent use.
type Sight struct {
	answered bool
	misled   bool // a request succeeded while probes failed, so failed probes do not count
	// unanswered counts the probes since the last answered one.
	unanswered int
	began      time.Time
	why        string // "" if the last probe showed a working server
	since      time.Time
}

// Shown is evidence, other than probes, that a server works.
type Shown struct {
	Good time.Time // time of the last successful request; zero means never
	Read bool
	// Enough unanswered probes in a row show a dead server; 0 counts as 1.
	Enough int
}

// Look probes a server once. The caller calls take to record the result in a Sight. take returns
// whether the server works by the Sight (up), and whether it works again after it was down.
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

// Reach is Look for a gateway of another cluster. It only opens a connection, because the gateway
// would log a request.
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

// take records the result of a probe. Unanswered probes show a dead server only if the server
// answered before: otherwise the server may have no /health, or only this process cannot reach it.
// A busy machine may fail to answer a single probe in time (Shown.Enough).
func (s *Sight) take(found result, why string, began time.Time, shown Shown) (up, again bool) {
	before := s.why
	if s.misled = s.misled || before != "" && shown.Good.After(s.began); found == works {
		s.answered, s.misled = true, false
	}
	s.answered = s.answered || shown.Read
	s.began = began
	if found == works || found == dead {
		s.unanswered = 0
	} else {
		s.unanswered++
	}
	unproven := !s.answered || before == "" && s.unanswered < shown.Enough
	if s.why = why; found == works || s.misled || found != dead && unproven {
		s.why = ""
	}
	if before == "" && s.unanswered < 2 {
		s.since = began
	}
	return s.why == "", found == works && before != ""
}

// Probed reports whether the server was ever probed.
func (s *Sight) Probed() bool { return s != nil && !s.began.IsZero() }

// Doubted reports whether the last probe failed, but too few did so to show a dead server.
func (s *Sight) Doubted() bool { return s.why == "" && s.unanswered > 0 && s.answered && !s.misled }

// Down returns why and since when the server is down, or "". good is the time of the last
// successful request to the server.
func (s *Sight) Down(good time.Time) (why string, since time.Time) {
	if s == nil || s.why == "" || good.After(s.began) {
		return "", time.Time{}
	}
	return s.why, s.since
}
