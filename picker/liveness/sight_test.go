package liveness

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/picker/upstream"
)

// Several unanswered probes in a row show a dead server, because a busy machine may cause a single
// one. A closed port shows it at once.
func TestSight_UnansweredProbesAreCounted(t *testing.T) {
	closed := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	const silent, down = "no answer at /health", "connection refused"
	for name, probes := range map[string][]struct {
		status int
		err    error
		want   string
	}{
		"one":             {{200, nil, ""}, {}, {200, nil, ""}, {}, {}, {200, nil, ""}},
		"three":           {{200, nil, ""}, {}, {}, {want: silent}, {want: silent}, {200, nil, ""}, {}},
		"closed":          {{200, nil, ""}, {err: closed, want: down}, {want: silent}},
		"closed, later":   {{200, nil, ""}, {}, {err: closed, want: down}, {200, nil, ""}, {}, {}},
		"never an answer": {{}, {}, {}, {}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				next := probes[0]
				c := (&replies{reply: func() (int, error) { return next.status, next.err }}).checker()
				var s Sight
				var first time.Time
				for i, p := range probes {
					if next = p; p.status != 0 {
						first = time.Time{}
					} else if first.IsZero() || p.err != nil {
						first = time.Now()
					}
					c.Look(t.Context(), at, upstream.Protocol{})(&s, Shown{Enough: 3})
					why, since := s.Down(time.Time{})
					if why != p.want || why != "" && !since.Equal(first) {
						t.Errorf("probe %d: %q since %s, want %q since %s", i, why, since, p.want, first)
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
}

// A failed probe shows that a server is down, but not after a later successful request. An
// unanswered probe counts only if the server answered before.
func TestSight_ServerIsDownByItsProbes(t *testing.T) {
	closed := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	noRoute := &net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}
	type probe struct {
		status int
		err    error
		good   bool // a request succeeds after the probe
		read   bool // the metrics page was read
		want   string
	}
	works := probe{status: 200}
	for name, probes := range map[string][]probe{
		"nothing listens":    {{err: closed, want: "connection refused"}},
		"health":             {works, {status: 503, want: "/health answers 503"}, works},
		"frozen":             {works, {want: "no answer at /health"}, {want: "no answer at /health"}, works},
		"frozen, with page":  {{read: true, want: "no answer at /health"}},
		"never reached":      {{}, {err: noRoute}, {}},
		"unreachable later":  {works, {err: noRoute, want: "no route to host"}},
		"another protocol":   {{err: errors.New("malformed HTTP response")}},
		"has no health":      {{status: 404}},
		"requests succeed":   {{err: closed, good: true}, {err: closed}, {err: closed}},
		"down after success": {{err: closed, good: true}, works, {err: closed, want: "connection refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var next probe
				c := (&replies{reply: func() (int, error) { return next.status, next.err }}).checker()
				var s Sight
				var shown Shown
				for i, p := range probes {
					next, shown.Read = p, shown.Read || p.read
					up, _ := c.Look(t.Context(), at, upstream.Protocol{})(&s, shown)
					time.Sleep(time.Second)
					if p.good {
						shown.Good = time.Now()
					}
					why, since := s.Down(shown.Good)
					if why != p.want || (why == "") != since.IsZero() || !p.good && up != (why == "") {
						t.Errorf("probe %d: %q since %s, want %q; up %t", i, why, since, p.want, up)
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
}
