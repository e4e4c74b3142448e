package features

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// soon bounds the time of a request that does not wait in a queue. It is far below the pools'
// ttlSeconds, and more than a busy machine needs.
const soon = 15 * time.Second

// While its servers are busy, a pool with flow control queues its own clients' requests. Requests
// of another cluster go to an idle cluster, with each policy and in each mode.
func TestFlowControl_BusyExporterHoldsNoRequestThatAnIdleOneServes(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"EndpointMode", "ParentMode"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			here, exporters := exporting(t, mode, nil)
			exporters["east"].fill(3)
			for _, policy := range []string{"LeastLoad", "Latency", "Weighted"} {
				here.write("declines.yaml", with("here"), swap("policy: LeastLoad", "policy: "+policy))
				here.Eventually("the policy is in force", func() error {
					got := here.explain(here.url("/"), "-X", "POST")
					return because(policy == "Weighted" || strings.Contains(got, policy), got)
				})
				here.goesTo(policy, "west", 12)
			}
			here.write("declines.yaml", with("here"))
			here.Eventually("the report of east has its queue", func() error {
				waits := here.series(`penstock_selection_reported_wait_seconds{cluster="east",import="default/chat"}`)
				return because(waits > 2, "a wait of ", waits, " s")
			})
		})
	}
}

func TestFlowControl_LastClusterHoldsTheRequestUntilAServerIsFree(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"EndpointMode", "ParentMode"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			lastHolds(t, mode)
		})
	}
}

func lastHolds(t *testing.T, mode string) {
	here, exporters := exporting(t, mode, []string{"holds"}, "--max-num-seqs", "1")
	free, before := map[string]func(){}, map[string]float64{}
	for name, at := range exporters {
		free[name] = at.fill(1)
		before[name] = at.come()
	}
	got := make(chan reply, 1)
	go func() {
		r, err := here.ask("/", question)
		if err != nil {
			t.Error(err)
		}
		got <- r
	}()
	last := ""
	here.Eventually("the request waits at one of them", func() error {
		for name, at := range exporters {
			if at.come() > before[name] { // counts picked requests, too, because some may have left the queue
				last = name
			}
		}
		select {
		case r := <-got:
			t.Fatalf("the request is answered %d %s, want it to wait", r.status, r.body)
		default:
		}
		return because(last != "", "it waits nowhere")
	})
	free[last]()
	if r := <-got; r.status != http.StatusOK || r.by() != last {
		t.Errorf("got %d %s by %q, want an answer of %s", r.status, r.body, r.by(), last)
	}
}

// exporting starts a cluster with an import, and its exporters: east, whose server runs one request
// at a time, and west, whose server gets the arguments. parts are written at both exporters.
func exporting(t *testing.T, mode string, parts []string, west ...string) (here *site, exporters map[string]*site) {
	here, exporters = newSite(t), map[string]*site{}
	here.member("here", "", "declines.yaml", with("here"))
	for name, args := range map[string][]string{"east": {"--max-num-seqs", "1"}, "west": west} {
		at, more := newSite(t), ""
		at.server(name, append(args, "--inter-token-latency", "20ms")...)
		if mode == "ParentMode" {
			more = at.peerListener()
		}
		at.member(name, more, "declines.yaml", with(name), with(parts...),
			swap("export-mode: EndpointMode", "export-mode: "+mode))
		here.join(at)
		exporters[name] = at
	}
	here.Eventually("both clusters report", func() error {
		page := here.metrics()
		for name := range exporters {
			if !strings.Contains(page, fmt.Sprintf("penstock_selection_reported_wait_seconds{cluster=%q", name)) {
				return fmt.Errorf("%s reports no wait, want one; status:\n%s", name, here.status())
			}
		}
		return nil
	})
	here.answers("/", http.StatusOK)
	return here, exporters
}

// goesTo sends requests concurrently. The server must answer each within soon.
func (s *site) goesTo(policy, server string, requests int) {
	s.Helper()
	var all sync.WaitGroup
	for i := range requests {
		all.Go(func() {
			begin := time.Now()
			got, err := s.ask("/", question)
			if took := time.Since(begin); err != nil || got.by() != server || took > soon {
				s.Errorf("%s: request %d: %d by %q after %s: %s %v, want %q and at most %s",
					policy, i, got.status, got.by(), took, got.body,
					err, server, soon)
			}
		})
	}
	all.Wait()
}

// fill sends this site's own requests to pool chat until some wait in the picker. free ends them
// all.
func (s *site) fill(waiting float64) (free func()) {
	s.Helper()
	ctx, end := context.WithCancel(s.Context())
	var all sync.WaitGroup
	free = func() { end(); all.Wait() }
	s.Cleanup(free)
	before, sent := s.series(picked), 0.0
	s.Eventually("requests wait", func() error {
		now := s.waiting()
		if arrived := now + s.series(picked) - before; arrived != sent {
			return fmt.Errorf("%g requests have arrived, want %g", arrived, sent)
		}
		if now >= waiting {
			return nil
		}
		sent++
		all.Go(func() { _ = s.stream(ctx, "/", strings.Repeat("word ", 3000), func(string) {}) }) // ends with ctx
		return fmt.Errorf("%g requests wait, want %g", now, waiting)
	})
	return free
}

// come returns how many requests were queued or picked.
func (s *site) come() float64 { return s.waiting() + s.series(picked) }

func (s *site) waiting() float64 {
	return s.series(`penstock_picker_flow_requests{pool="default/chat",priority="0"}`)
}
