//go:build lab && linux

package members

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/penstock-project/penstock/conformance/lab/labtest"
	"github.com/penstock-project/penstock/conformance/lab/network"
)

// grace is how long after a loss a request may use a connection that was opened before the loss.
const grace = 3 * time.Second

type sent struct {
	what string
	at   time.Time
	took time.Duration
	err  error
}

type sender struct {
	l    *load
	stop context.CancelFunc
	all  sync.WaitGroup
	mu   sync.Mutex
	list []sent
}

func (s *site) send(pools ...string) *sender {
	s.Helper()
	ctx, stop := context.WithCancel(s.Context())
	out := &sender{l: &load{t: s.T, pools: pools, by: map[string]int{}}, stop: stop}
	s.Cleanup(stop)
	address := s.west.address()
	for _, pool := range pools {
		for what, r := range map[string]request{
			"plain":                     {tokens: 1},
			"plain on a new connection": {tokens: 1, fresh: true},
			"streamed":                  {tokens: 2, stream: true},
			"1 MB":                      {tokens: 1, prompt: words},
		} {
			out.all.Go(func() {
				for ctx.Err() == nil {
					start := time.Now()
					err := out.l.ask(context.WithoutCancel(ctx), address, pool, r)
					out.mu.Lock()
					out.list = append(out.list, sent{pool + ", " + what, start, time.Since(start), err})
					out.mu.Unlock()
					time.Sleep(30 * time.Millisecond)
				}
			})
		}
	}
	return out
}

// lost fails the test for each failed request that ended before the loss, or was sent more than
// grace after the loss. It logs the longest time of a request after the loss.
func (s *sender) lost(t *testing.T, loss time.Time) {
	t.Helper()
	s.stop()
	s.all.Wait()
	longest, failed := sent{}, 0
	for _, r := range s.list {
		switch {
		case r.err != nil && (r.at.After(loss.Add(grace)) || r.at.Add(r.took).Before(loss)):
			if failed++; failed <= 5 {
				t.Errorf("%s, sent %s after the loss, failed after %s, want it to succeed: %v", r.what,
					r.at.Sub(loss).Round(time.Millisecond), r.took.Round(time.Millisecond), r.err)
			}
		case r.at.After(loss) && r.took > longest.took:
			longest = r
		}
	}
	early := slices.DeleteFunc(slices.Clone(s.list), func(r sent) bool {
		return r.err == nil || r.at.After(loss.Add(grace)) || r.at.Add(r.took).Before(loss)
	})
	measured.lost(requests{sent: len(s.list), failed: failed, excepted: len(early)}, longest.took)
	t.Logf(
		"%d requests, %d lost; %d of those in flight at the loss, or sent within %s of it, failed; longest %s (%s, "+
			"sent %s after it)",
		len(s.list), failed, len(early), grace, longest.took.Round(time.Millisecond), longest.what,
		longest.at.Sub(loss).Round(time.Millisecond))
	for _, r := range early[:min(len(early), 3)] {
		t.Logf("%s, sent %s after the loss, failed after %s: %v", r.what, r.at.Sub(loss).Round(time.Millisecond),
			r.took.Round(time.Millisecond), r.err)
	}
}

func (s *sender) goes(t *testing.T, n int) {
	t.Helper()
	count := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.list)
	}
	from := count()
	labtest.Until(t, fmt.Sprintf("%d requests", n), func(context.Context) error {
		if got := count() - from; got < n {
			return fmt.Errorf("%d requests, want %d", got, n)
		}
		return nil
	})
}

// One of two clusters is lost entirely: the link drops or rejects all packets. The other cluster
// serves.
func TestClusterSet_LostClusterIsReplacedByAnother(t *testing.T) {
	for _, effect := range []network.Effect{network.Reject, network.Cut} {
		t.Run(string(effect), func(t *testing.T) {
			s := newSite(t, "epp")
			s.load.End()
			out := s.send("epp")
			out.goes(t, 60)
			t.Cleanup(func() { s.faults(network.Fault{Effect: network.Heal}) })
			loss := time.Now()
			s.faults(network.Fault{Effect: effect})
			labtest.Until(t, "some seconds have passed", func(context.Context) error { // longer than any timeout
				if left := time.Until(loss.Add(15 * time.Second)); left > 0 {
					return fmt.Errorf("%s left, want none", left)
				}
				return nil
			})
			out.goes(t, 60)
			s.faults(network.Fault{Effect: network.Heal})
			before := out.l.count("epp", "east")
			labtest.Until(t, "east serves again", func(context.Context) error {
				if out.l.count("epp", "east") < before+5 {
					return fmt.Errorf("%d requests, want 5", out.l.count("epp", "east")-before)
				}
				return nil
			})
			out.lost(t, loss)
			http.DefaultClient.CloseIdleConnections()
		})
	}
}
