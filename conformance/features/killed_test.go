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

// mortal is a model server that fails on demand.
type mortal struct {
	name   string
	fails  atomic.Pointer[func(http.ResponseWriter)] // makes requests fail; nil: they are served
	health atomic.Int32                              // the status of /health; 0: 200
	served atomic.Int32                              // requests, including failed requests
}

func (s *site) mortal(name string) *mortal {
	m := &mortal{name: name}
	s.backend(name, m)
	return m
}

func (m *mortal) fail(f func(http.ResponseWriter)) { m.fails.Store(&f) }

func resets(http.ResponseWriter) { panic(http.ErrAbortHandler) }

// internal answers like a vLLM without its engine core.
func internal(w http.ResponseWriter) {
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = io.WriteString(w, `{"error":{"message":"EngineCore encountered an issue."}}`)
}

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
		t.Errorf("failed: %v, want none", failed)
	}
}

// Another server answers after a reset, or after a 500 if the server's health check fails then or
// shortly later.
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
				t.Errorf("got %v, %d by the server that died, want 10 times 200, at least 1 tried there", got,
					a.served.Load()-before)
			}
		})
	}
}

// With fallbacks: 0, no request runs twice.
func TestKilled_WithoutFallbacksARequestIsSentOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a, b := s.mortal("a"), s.mortal("b")
	s.up("killed.yaml", swap("strategy: round-robin", "strategy: round-robin, fallbacks: 0"))
	s.goes("/", "a", 1)
	s.goes("/", "b", 1)
	before := a.served.Load() + b.served.Load()
	a.fail(resets)
	b.fail(internal)
	b.health.Store(http.StatusServiceUnavailable)
	if got := s.outcomes("/", 4); got[http.StatusOK] > 0 {
		t.Errorf("statuses of servers that all fail: got %v, want no 200", got)
	}
	if n := a.served.Load() + b.served.Load() - before; n != 4 {
		t.Errorf("4 requests have run %d times, want 4", n)
	}
}

// runsOnce sends requests. Exactly one server must run each request, and answer with the status.
func (s *site) runsOnce(status int, servers ...*mortal) {
	s.Helper()
	served := func() (n int32) {
		for _, m := range servers {
			n += m.served.Load()
		}
		return n
	}
	before := served()
	if got := s.outcomes("/", 4); got[status] != 4 {
		s.Errorf("got %v, want %d for each", got, status)
	}
	if n := served() - before; n != 4 {
		s.Errorf("4 requests have run %d times, want 4", n)
	}
}

// A server's own answer has Penstock's header for dead servers. The request must not run again.
func TestKilled_MarkOfAServerIsNotBelieved(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a, b := s.mortal("a"), s.mortal("b")
	s.up("killed.yaml")
	s.goes("/", "a", 1)
	s.goes("/", "b", 1)
	marks := func(w http.ResponseWriter) {
		w.Header().Set("penstock-server-dead", "1")
		w.WriteHeader(http.StatusInternalServerError)
	}
	a.fail(marks)
	b.fail(marks)
	s.runsOnce(http.StatusInternalServerError, a, b)
}

// A request that exceeds a route's backendRequest timeout ends. No other server runs it.
func TestKilled_AttemptThatTakesTooLongIsNotRepeated(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a, b := s.mortal("a"), s.mortal("b")
	s.up("killed.yaml", swap("  - backendRefs:", "  - timeouts: {backendRequest: 700ms}\n    backendRefs:"))
	s.goes("/", "a", 1)
	s.goes("/", "b", 1)
	slow := func(http.ResponseWriter) { time.Sleep(3 * time.Second) }
	a.fail(slow)
	b.fail(slow)
	s.runsOnce(http.StatusGatewayTimeout, a, b)
}

// A request to which a healthy server answers 500 does not move, because it would fail everywhere.
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
			if got, err := s.ask("/", question); err != nil || got.status != 500 ||
				!strings.Contains(got.body, "EngineCore") ||
				got.header.Get("penstock-server-dead") != "" {
				t.Errorf("got %d %v %s, %v, want the server's own 500 without penstock-server-dead", got.status,
					got.header, got.body, err)
			}
		})
	}
	all.Wait()
	if n := a.served.Load() + b.served.Load() - before; n != 10 {
		t.Errorf("10 requests have run %d times, want 10", n)
	}
}

// askers are clients that send requests without a pause. Every second request is a stream.
type askers struct {
	s     *site
	model string
	stop  chan struct{}
	done  sync.WaitGroup

	mu            sync.Mutex
	served, begun int // begun: streams that failed after their headers
	failed        []string
}

func (s *site) askers(clients int, model string) *askers {
	l := &askers{s: s, model: model, stop: make(chan struct{})}
	for i := range clients {
		l.done.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-l.stop:
					return
				default:
					l.send(fmt.Sprintf("client %d, question %d", i, n), i%2 == 0)
				}
			}
		})
	}
	s.Cleanup(l.end)
	return l
}

func (l *askers) send(prompt string, stream bool) {
	body := fmt.Sprintf(
		`{"model":%q,"max_tokens":48,"ignore_eos":true,"stream":%t,"messages":[{"role":"user","content":%q}]}`,
		l.model, stream, prompt)
	req, err := request(l.s.Context(), l.s.url("/"), body)
	if err != nil {
		l.note(false, err.Error())
		return
	}
	resp, err := client().Do(req)
	if err != nil {
		l.note(false, err.Error())
		return
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	problem := ""
	if resp.StatusCode != http.StatusOK || err != nil || strings.Contains(string(text), `data: {"error"`) {
		problem = fmt.Sprint(resp.Header.Get("x-request-id"), " ", resp.StatusCode, " ", err, " ",
			string(text[max(0, len(text)-300):]))
	}
	l.note(stream && resp.StatusCode == http.StatusOK, problem)
}

func (l *askers) note(begun bool, problem string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case problem == "":
		l.served++
	case begun:
		l.begun++
	default:
		l.failed = append(l.failed, problem)
	}
}

func (l *askers) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.done.Wait()
}

func (l *askers) counts() (served, failed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.served, len(l.failed)
}

// A server dies under load. Only streams that had begun may fail.
func TestKilled_CostsNoRequestThatHadNotBegun(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	args := []string{"--inter-token-latency", "5ms", "--time-to-first-token", "20ms"}
	a := s.server("a", args...)
	s.server("b", args...)
	s.up("killed.yaml", swap("round-robin", "load"))
	s.answers("/", http.StatusOK)
	l := s.askers(16, "llama")
	serves := func(n int) {
		before, _ := l.counts()
		s.Eventually(fmt.Sprint(n, " requests are served"), func() error {
			served, _ := l.counts()
			return because(served >= before+n, served-before)
		})
	}
	serves(50)
	a.Signal(syscall.SIGKILL)
	serves(100)
	l.end()
	if len(l.failed) > 0 {
		t.Errorf("%d requests failed: %s, want 0", len(l.failed), strings.Join(l.failed, "\n"))
	}
}

func TestKilled_ExternalPickersRequestsMoveOn(t *testing.T) {
	t.Parallel()
	both := []edit{
		with("two", "external", "slice", "import"),
		swap("targetPorts: [{number: ${pod-2}}]", "targetPorts: [{number: ${pod-1}}, {number: ${pod-2}}]"),
		swap("targetPortNumber: ${pod-2}", "targetPorts: [{number: ${pod-1}}, {number: ${pod-2}}]"),
	}
	for name, die := range map[string]func(*mortal){
		"reset": func(m *mortal) { m.fail(resets) },
		"500": func(m *mortal) {
			m.fail(internal)
			m.health.Store(http.StatusServiceUnavailable)
		},
	} {
		for _, path := range []string{"/", "/declared", "/relayed"} {
			t.Run(name+" at "+path, func(t *testing.T) {
				t.Parallel()
				s := newSite(t)
				first := s.mortal("pod-1")
				s.mortal("pod-2")
				p := &referencePicker{pick: s.address("pod-1") + "," + s.address("pod-2")}
				s.ports["epp"], _ = serving(t, "127.0.0.1:0", p)
				s.up("externalpicker.yaml", both...)
				s.goes(path, "pod-1", 3)
				before := first.served.Load()
				die(first)
				if got := s.outcomes(path, 4); got[http.StatusOK] != 4 || first.served.Load() == before {
					t.Errorf("got %v, %d by the server that died, want 4 times 200, at least 1 tried there", got,
						first.served.Load()-before)
				}
			})
		}
	}
}
