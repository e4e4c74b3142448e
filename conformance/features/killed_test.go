package features

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// mortal is a model server that fails as a test demands.
type mortal struct {
	name   string
	fails  atomic.Pointer[func(http.ResponseWriter)] // how requests fail; nil: they are served
	health atomic.Int32                              // the status of /health; 0: 200
	served atomic.Int32                              // requests, failed ones included
}

func (s *site) mortal(name string) *mortal {
	m := &mortal{name: name}
	s.backend(name, m)
	return m
}

// fail has requests answered by f.
func (m *mortal) fail(f func(http.ResponseWriter)) { m.fails.Store(&f) }

// resets ends the connection.
func resets(http.ResponseWriter) { panic(http.ErrAbortHandler) }

// internal answers as vLLM without its engine core does.
func internal(w http.ResponseWriter) {
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = io.WriteString(w, `{"error":{"message":"EngineCore encountered an issue."}}`)
}

// ServeHTTP serves chat completions and /health.
func (m *mortal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if r.URL.Path == "/health" {
		if status := m.health.Load(); status != 0 {
			w.WriteHeader(int(status))
		}
		return
	}
	if !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		http.NotFound(w, r)
		return
	}
	m.served.Add(1)
	w.Header().Set("x-served-by", m.name)
	if f := m.fails.Load(); f != nil {
		(*f)(w)
	}
	_, _ = io.WriteString(w, `{"choices": []}`)
}

// outcomes sends requests to a path, and counts statuses.
func (s *site) outcomes(path string, n int) map[int]int {
	s.Helper()
	counts := map[int]int{}
	for range n {
		got, err := s.ask(path, question)
		if err != nil {
			s.Fatal(err)
		}
		counts[got.status]++
	}
	return counts
}

func TestKilled_RequestInFlightIsServedByAnother(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.server("a", "--time-to-first-token", "2s")
	s.server("b", "--time-to-first-token", "2s")
	s.up("killed.yaml")
	s.answers("/", http.StatusOK)
	const n = 300
	replies := make(chan string, n)
	for range n {
		go func() {
			got, err := s.ask("/", question)
			text := ""
			if err != nil || got.status != http.StatusOK {
				text = fmt.Sprint(got.status, " ", got.body, " ", err)
			}
			replies <- text
		}()
	}
	s.Eventually("half of the requests are at the server", func() error {
		page, err := s.get("http://" + s.address("a") + "/metrics")
		half := fmt.Sprint("num_requests_running{model_name=\"llama\"} ", n/2)
		return because(err == nil && strings.Contains(page.body, half), page.body, err)
	})
	a.Signal(syscall.SIGKILL)
	failed := map[string]int{}
	for range n {
		if text := <-replies; text != "" {
			failed[text]++
		}
	}
	if len(failed) > 0 {
		t.Errorf("failed: %v", failed)
	}
}

// A server that dies after its answer is found dead, too.
func TestKilled_ErrorOfDeadServerIsServedByAnother(t *testing.T) {
	t.Parallel()
	for name, die := range map[string]func(*mortal){
		"reset": func(a *mortal) { a.fail(resets) },
		"500, and its health fails": func(a *mortal) {
			a.fail(internal)
			a.health.Store(http.StatusServiceUnavailable)
		},
		"500, and its health fails later": func(a *mortal) {
			a.fail(func(w http.ResponseWriter) {
				time.AfterFunc(150*time.Millisecond, func() { a.health.Store(http.StatusServiceUnavailable) })
				internal(w)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			a := s.mortal("a")
			s.mortal("b")
			s.up("killed.yaml")
			s.goes("/", "a", 1)
			s.goes("/", "b", 1)
			before := a.served.Load()
			die(a)
			if got := s.outcomes("/", 10); got[http.StatusOK] != 10 || a.served.Load() == before {
				t.Errorf("got %v, %d by the server that died", got, a.served.Load()-before)
			}
		})
	}
}

// A request that a server cannot serve would fail at every server.
func TestKilled_ErrorOfWorkingServerIsTheAnswer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a, b := s.mortal("a"), s.mortal("b")
	s.up("killed.yaml")
	s.goes("/", "a", 1)
	s.goes("/", "b", 1)
	a.fail(internal)
	b.fail(internal)
	before := a.served.Load() + b.served.Load()
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if got, err := s.ask("/", question); err != nil || got.status != 500 || !strings.Contains(got.body, "EngineCore") ||
				got.header.Get("penstock-server-dead") != "" {
				t.Error(got.status, got.header, got.body, err)
			}
		})
	}
	all.Wait()
	if n := a.served.Load() + b.served.Load() - before; n != 10 {
		t.Errorf("10 requests have run %d times", n)
	}
}
