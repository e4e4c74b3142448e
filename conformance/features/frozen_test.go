package features

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// freezing is a model server that, like engines, sends a stream's headers before it reads the
// prompt. If it is frozen, it sends nothing.
type freezing struct {
	name           string
	frozen         atomic.Bool
	headers, reads atomic.Int64 // time until the headers, and then until the prompt is read
	got            atomic.Int64 // number of requests

	mu    sync.Mutex
	limit string // a request header that Envoy must not send to servers
}

func (f *freezing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	body, _ := io.ReadAll(r.Body)
	f.got.Add(1)
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Envoy-Upstream-Rq") || strings.HasPrefix(name, "X-Envoy-Hedge") {
			f.mu.Lock()
			f.limit = name
			f.mu.Unlock()
		}
	}
	if f.frozen.Load() {
		<-r.Context().Done()
		return
	}
	wait := func(d int64) {
		select {
		case <-time.After(time.Duration(d)):
		case <-r.Context().Done():
		}
	}
	w.Header().Set("x-served-by", f.name)
	if wait(f.headers.Load()); !strings.Contains(string(body), `"stream": true`) {
		w.Header().Set("content-type", "application/json")
		_, _ = io.WriteString(w, "{}")
		return
	}
	w.Header().Set("content-type", "text/event-stream")
	_ = http.NewResponseController(w).Flush()
	wait(f.reads.Load())
	_, _ = io.WriteString(w, "data: {}\n\ndata: [DONE]\n\n")
}

// twoFreezing serves pools of two freezing servers. It returns once the picker has measured enough
// streams of each.
func twoFreezing(t *testing.T) (s *site, servers [2]*freezing) {
	t.Helper()
	s = newSite(t)
	for i, name := range []string{"first", "second"} {
		servers[i] = &freezing{name: name}
		s.backend(name, servers[i])
	}
	s.up("frozen.yaml")
	s.answers("/", http.StatusOK)
	s.learns(servers)
	t.Cleanup(func() {
		for _, f := range servers {
			if f.limit != "" {
				t.Errorf("server %s received the header %s, want it at Envoy alone", f.name, f.limit)
			}
		}
	})
	return s, servers
}

// learns sends each server enough streams to replace earlier measurements.
func (s *site) learns(servers [2]*freezing) {
	s.Helper()
	servers[0].slow(0, 15*time.Millisecond)
	servers[1].slow(0, 15*time.Millisecond)
	for first, second := servers[0].got.Load(), servers[1].got.Load(); servers[0].got.Load() < first+140 ||
		servers[1].got.Load() < second+140; {
		s.streams(80)
	}
}

func (f *freezing) slow(headers, reads time.Duration) {
	f.headers.Store(int64(headers))
	f.reads.Store(int64(reads))
}

func (s *site) streams(n int) {
	s.Helper()
	bodies := make(chan string, n)
	for range n {
		bodies <- s.prompt(40, true)
	}
	close(bodies)
	var senders sync.WaitGroup
	for range 8 {
		senders.Go(func() {
			for body := range bodies {
				if got, err := s.ask("/", body); err != nil || got.status != http.StatusOK {
					s.Errorf("%d %s %v, want %d", got.status, got.body, err, http.StatusOK)
				}
			}
		})
	}
	senders.Wait()
}

// If a server accepts a stream but sends no headers, the next server answers.
func TestFrozen_StreamsAreAnsweredByTheNextServer(t *testing.T) {
	t.Parallel()
	s, servers := twoFreezing(t)
	servers[0].frozen.Store(true)
	before := servers[0].got.Load()
	s.streams(60)
	if servers[0].got.Load() == before {
		t.Error("the frozen server got no stream")
	}
}

// A restarted process gets the time limits of streams from its peer, and keeps them without the
// peer.
func TestFrozen_SecondProcessHasTheLimits(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var servers [2]*freezing
	for i, name := range []string{"first", "second"} {
		servers[i] = &freezing{name: name}
		s.backend(name, servers[i])
	}
	other := s.twoProcesses("frozen.yaml")
	s.attach(s.ads() + "," + other.ads())
	s.answers("/", http.StatusOK)
	other.kill()
	s.learns(servers)
	other.serve()
	other.logged("connected to a peer")
	s.kill()
	other.answers("/", http.StatusOK)
	servers[0].frozen.Store(true)
	before, slow := servers[0].got.Load(), time.Duration(0)
	for range 20 {
		began := time.Now()
		other.answered("/", other.prompt(40, true))
		slow = max(slow, time.Since(began))
	}
	switch {
	case servers[0].got.Load() == before:
		t.Error("the frozen server got no stream")
	case slow > 10*time.Second: // the default limit is 20 s
		t.Errorf("a stream has waited for %v, want at most 10 s", slow)
	}
}

func (s *site) asked(servers [2]*freezing, path, body string, headers ...string) (got reply, copies int64) {
	s.Helper()
	before := servers[0].got.Load() + servers[1].got.Load()
	got = s.answered(path, body, headers...)
	return got, servers[0].got.Load() + servers[1].got.Load() - before
}

// Late headers do not move a request if a policy or a route forbids it, if the answer is not
// streamed, or if only the prompt takes long. Clients cannot set the limit.
func TestFrozen_NoOtherServerIsAskedWhereThatIsNotAllowed(t *testing.T) {
	t.Parallel()
	s, servers := twoFreezing(t)
	const long = 1300 * time.Millisecond
	limits := []string{"x-envoy-upstream-rq-per-try-timeout-ms", "100", "x-envoy-hedge-on-per-try-timeout", "true",
		"x-envoy-retry-on", "reset"}
	for _, c := range []struct {
		path           string
		stream         bool
		headers, reads time.Duration
		client         []string
		copies         int64
	}{
		{"/", true, long, 0, nil, 2},
		{"/", true, 0, long, limits, 1},
		{"/", false, long, 0, limits, 1},
		{"/none", true, long, 0, limits, 1},
		{"/single", true, long, 0, limits, 1},
		{"/bounded", true, long, 0, limits, 1},
	} {
		ask := func() error {
			s.learns(servers)
			servers[0].slow(c.headers, c.reads)
			servers[1].slow(c.headers, c.reads)
			_, copies := s.asked(servers, c.path, s.prompt(40, c.stream), c.client...)
			if copies != c.copies {
				return fmt.Errorf("%s, stream %t, headers after %v: %d servers were asked, want %d", c.path, c.stream,
					c.headers, copies, c.copies)
			}
			return nil
		}
		if c.copies > 1 { // on a busy machine, late headers of other streams raise the limit
			s.Eventually("another server is asked", ask)
		} else if err := ask(); err != nil {
			t.Error(err)
		}
	}
}

// If both servers are slow, the first to send headers serves the stream, and no stream fails.
func TestFrozen_SlowPoolIsNotAskedTwice(t *testing.T) {
	t.Parallel()
	s, servers := twoFreezing(t)
	for _, took := range [][2]time.Duration{{1500 * time.Millisecond, 2 * time.Second},
		{2 * time.Second, 1500 * time.Millisecond}} {
		for i, f := range servers {
			f.slow(took[i], 0)
		}
		s.Eventually("a stream has gone to one server", func() error {
			got, copies := s.asked(servers, "/", s.prompt(40, true))
			at := "served by " + s.address(got.by())
			s.Eventually("the end of the request is known", func() error {
				text := s.explain("--why", got.header.Get("x-request-id"))
				switch {
				case !strings.Contains(text, "ended after"):
					return fmt.Errorf("explain --why: got\n%s\nwant that the request ended", text)
				case !strings.Contains(text, at):
					t.Errorf("explain --why: got\n%s\nwant %q", text, at)
				}
				return nil
			})
			if copies != 1 {
				return fmt.Errorf("%d servers were asked, want 1", copies)
			}
			return nil
		})
	}
}
