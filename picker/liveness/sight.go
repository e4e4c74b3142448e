package liveness

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/penstock-project/penstock/picker/upstream"
)

const lookTime = 550 * time.Millisecond

// Sight keeps the results of one server's probes. It is not safe for concurrent use.
type Sight struct {
	answered bool
	misled   bool // requests succeed although probes fail: only probes from this process fail
	// unanswered counts the probes without an answer since the last answer.
	unanswered int
	began      time.Time
	why        string // "" if the last probe showed a working server
	since      time.Time
}

// Shown is evidence, other than probes, that a server works.
type Shown struct {
	Good time.Time // time of the last successful request; zero means never
	Read bool      // its metrics page was read
	// Enough is the number of consecutive unanswered probes that show a dead server; 0 counts as 1.
	Enough int
}

// Look probes a server once. The function take records the result in a Sight. It returns whether
// the Sight shows a working server, and whether the server was down before.
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

// Reach is like Look, but for a gateway of another cluster. It only opens a connection: a gateway
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

// Probes without an answer show a dead server only if the server answered before. Otherwise the
// server may have no /health, or be unreachable only from here. A busy machine leaves single probes
// unanswered.
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

// Probed reports whether the server was probed.
func (s *Sight) Probed() bool { return s != nil && !s.began.IsZero() }

// Doubted reports whether the last probe had no answer, which does not yet show a dead server.
func (s *Sight) Doubted() bool { return s.why == "" && s.unanswered > 0 && s.answered && !s.misled }

// Down describes why the server is down, or "", and since when. The parameter good is the time of
// the last successful request.
func (s *Sight) Down(good time.Time) (why string, since time.Time) {
	if s == nil || s.why == "" || good.After(s.began) {
		return "", time.Time{}
	}
	return s.why, s.since
}
