package supervisor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func bootstrapYAML(address, upstream string) []byte {
	host := func(hostport string) string {
		h, p, _ := net.SplitHostPort(hostport)
		return fmt.Sprintf("{socket_address: {address: %s, port_value: %s}}", h, p)
	}
	return fmt.Appendf(nil, `
node: {id: test, cluster: default/edge}
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}
static_resources:
  listeners:
  - name: edge
    address: %s
    filter_chains:
    - filters:
      - name: hcm
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: edge
          http_filters: [{name: router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]
          route_config:
            virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: upstream}}]}]
  clusters:
  - name: upstream
    load_assignment: {cluster_name: upstream, endpoints: [{lb_endpoints: [{endpoint: {address: %s}}]}]}
`, host(address), host(upstream))
}

type records struct {
	mu  sync.Mutex
	all []slog.Record
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }
func (r *records) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *records) WithGroup(string) slog.Handler            { return r }
func (r *records) Handle(_ context.Context, record slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, record)
	return nil
}

func (r *records) attrs(message, key string) []slog.Value {
	r.mu.Lock()
	defer r.mu.Unlock()
	var values []slog.Value
	for _, record := range r.all {
		if record.Message == message {
			record.Attrs(func(a slog.Attr) bool {
				if a.Key == key {
					values = append(values, a.Value)
				}
				return true
			})
		}
	}
	return values
}

type running struct {
	*Envoy
	t       *testing.T
	records *records
	address string
	stop    context.CancelFunc
	result  chan error
}

func run(t *testing.T, upstream string, grace time.Duration) *running {
	t.Helper()
	r := prepare(t, upstream, grace)
	r.begin()
	r.eventually("Envoy is ready", func() bool { return r.ready() && len(r.pids()) > 0 })
	return r
}

func prepare(t *testing.T, upstream string, grace time.Duration) *running {
	t.Helper()
	envoy, err := Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	r := &running{t: t, records: &records{}, address: free.Addr().String(), result: make(chan error, 1)}
	dir, err := os.MkdirTemp("", "ps") // t.TempDir's path is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r.Envoy, err = NewEnvoy(EnvoyConfig{
		Envoy: envoy.Path, Gateway: "default/edge", Bootstrap: bootstrapYAML(r.address, upstream), Dir: dir,
		Args: []string{"--disable-hot-restart", "--drain-strategy", "immediate", "--drain-time-s", "600",
			"--concurrency", "1"},
		Grace: grace, Log: slog.New(r.records),
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *running) begin() {
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.result <- r.Run(ctx); close(r.result) }()
	r.t.Cleanup(func() { stop(); <-r.result })
}

func (r *running) ready() bool {
	_, err := r.Admin(r.t.Context(), "GET", "/ready")
	return err == nil
}

func (r *running) pids() []int {
	var pids []int
	for _, v := range r.records.attrs("Envoy started", "pid") {
		pids = append(pids, int(v.Int64()))
	}
	return pids
}

// ended fails the test if Run returns an error or leaves a process.
func (r *running) ended() {
	r.t.Helper()
	select {
	case err := <-r.result:
		if err != nil {
			r.t.Fatalf("Run: %v", err)
		}
	case <-time.After(poll.Limit):
		r.t.Fatal("Run did not return")
	}
	for _, pid := range r.pids() {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			r.t.Errorf("process %d: got %v, want it gone", pid, err)
		}
	}
}

func (r *running) eventually(what string, holds func() bool) {
	r.t.Helper()
	poll.Until(r.t, what, holds)
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestEnvoy_RestartsAfterCrash(t *testing.T) {
	r := run(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "served") }), 0)
	serves := func() bool {
		resp, err := http.Get("http://" + r.address)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return err == nil && string(body) == "served"
	}
	for life := 1; life <= 2; life++ {
		r.eventually("a request is served", serves)
		pids := r.pids()
		if err := syscall.Kill(pids[len(pids)-1], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		r.eventually("another process runs", func() bool { return len(r.pids()) == life+1 })
	}
	r.eventually("a request is served again", serves)

	delays := r.records.attrs("Envoy died and will be restarted", "in")
	if len(delays) != 2 || delays[1].Duration() != 2*delays[0].Duration() {
		t.Errorf("the delays between starts are %v, want two, the second twice the first", delays)
	}
	if reasons := r.records.attrs("Envoy died and will be restarted", "reason"); !strings.Contains(reasons[0].String(),
		"killed") {
		t.Errorf("the reason is %q, want the signal", reasons[0])
	}
	r.stop()
	r.ended()
}

func TestDrain_StreamedResponseEnds(t *testing.T) {
	began, finish := make(chan struct{}), make(chan struct{})
	r := run(t, serve(t, func(w http.ResponseWriter, req *http.Request) {
		fmt.Fprintln(w, "first")
		if req.URL.Path != "/stream" {
			return
		}
		w.(http.Flusher).Flush()
		close(began)
		<-finish
		fmt.Fprintln(w, "last")
	}), poll.Limit)
	resp, err := http.Get("http://" + r.address + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	if <-began; !lines.Scan() || lines.Text() != "first" {
		t.Fatalf(`got %q, %v; want "first"`, lines.Text(), lines.Err())
	}
	r.stop()
	r.eventually("other responses close their connection", func() bool {
		other, err := http.Get("http://" + r.address + "/other")
		if err != nil {
			t.Fatalf("a request during the drain was not answered: %v", err)
		}
		other.Body.Close()
		return other.Close // true for "Connection: close"
	})
	close(finish)
	if !lines.Scan() || lines.Text() != "last" || lines.Scan() || lines.Err() != nil {
		t.Fatalf(`the response was cut: got %q, %v; want "last" and the end`, lines.Text(), lines.Err())
	}
	r.ended()
}

func TestDrain_EndsAfterGracePeriod(t *testing.T) {
	began, never := make(chan struct{}), make(chan struct{})
	upstream := serve(t, func(http.ResponseWriter, *http.Request) { close(began); <-never })
	t.Cleanup(func() { close(never) }) // runs before the server's Close, which waits for handlers
	r := run(t, upstream, 200*time.Millisecond)
	answer := make(chan error, 1)
	go func() {
		resp, err := http.Get("http://" + r.address)
		if err == nil {
			resp.Body.Close()
		}
		answer <- err
	}()
	<-began
	r.stop()
	r.ended()
	<-answer
	if left := r.records.attrs("Envoy did not drain before its end", "in flight"); len(left) != 1 ||
		left[0].Int64() != 1 {
		t.Errorf("logged %v, want one request in flight", left)
	}
}

func TestEnvoy_CleanShutdownLogsNoWarning(t *testing.T) {
	r := run(t, "127.0.0.1:1", 0)
	r.stop()
	r.ended()
	for _, record := range r.records.all {
		if record.Level >= slog.LevelWarn && !strings.Contains(record.Message, "downstream connections") {
			t.Errorf("got %s %s, want no warning", record.Level, record.Message)
		}
	}
}

func TestEnvoy_TwoRunSideBySide(t *testing.T) {
	one, two := run(t, "127.0.0.1:1", 0), run(t, "127.0.0.1:1", 0)
	one.stop()
	one.ended()
	if !two.ready() {
		t.Error("the end of one ended the other")
	}
	if pids := two.pids(); len(pids) != 1 {
		t.Errorf("the other was started %d times, want 1", len(pids))
	}
	two.stop()
	two.ended()
}

func TestEnvoy_InvalidBootstrapIsLoggedInItsOwnWords(t *testing.T) {
	r := prepare(t, "127.0.0.1:1", 0)
	if err := os.WriteFile(r.config, []byte("static_resources: {clusters: [{name: c, no_such_field: 1}]}"),
		0o600); err != nil {
		t.Fatal(err)
	}
	r.begin()
	r.eventually("Envoy's error is logged with the restart", func() bool {
		for _, reason := range r.records.attrs("Envoy died and will be restarted", "reason") {
			if strings.Contains(reason.String(), "no_such_field") {
				return true
			}
		}
		return false
	})
	r.stop()
	r.ended()
}

func TestEnvoy_MissingBinaryIsTriedAgainUntilItExists(t *testing.T) {
	r := prepare(t, "127.0.0.1:1", 0)
	var mu sync.Mutex
	var reports []string
	report := func(problem string) {
		mu.Lock()
		defer mu.Unlock()
		reports = append(reports, problem)
	}
	last := func() string {
		mu.Lock()
		defer mu.Unlock()
		if len(reports) == 0 {
			return "no report"
		}
		return reports[len(reports)-1]
	}
	path := r.cfg.Envoy
	r.cfg.Envoy, r.cfg.Report = r.cfg.Dir+"/envoy", report
	r.begin()
	r.eventually("the second start has failed", func() bool { return len(r.records.attrs(cannotStart, "in")) == 2 })
	if got := last(); !strings.Contains(got, "no such file") {
		t.Errorf(`reported: %q, want a text with "no such file"`, got)
	}
	if err := os.Symlink(path, r.cfg.Envoy); err != nil {
		t.Fatal(err)
	}
	r.eventually("Envoy runs, and the report is dropped", func() bool { return r.ready() && last() == "" })
	r.stop()
	r.ended()
}

func TestEnvoy_FolderTooLongForSocketIsAnError(t *testing.T) {
	_, err := NewEnvoy(EnvoyConfig{Envoy: "/bin/true", Bootstrap: []byte("{}"),
		Dir: "/tmp/" + strings.Repeat("long", 30)})
	if err == nil || !strings.Contains(err.Error(), "shorter folder") {
		t.Errorf(`got %v, want an error with "shorter folder"`, err)
	}
}

func TestEnvoy_LogKeepsLevelsAndLines(t *testing.T) {
	got := &records{}
	w := &logWriter{log: slog.New(got)}
	for _, part := range []string{"warning config odd cl", `uster: a\n  \"b\" \\ 'c'` + "\n\nerror main ",
		"boom\nBacktrace:\ninfo x y\nwarning config gRPC config for a cluster rejected: b",
		"\n" + `warning router [Tags: "ConnectionId":"1","StreamId":"2"] no healthy upstream` + "\n" +
			`warning router [Tags: "ConnectionId":"3","StreamId":"4"] no healthy upstream`} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	w.flush()
	want := []struct {
		level   slog.Level
		message string
	}{
		{slog.LevelWarn, "odd cluster: a\n  \"b\" \\ 'c'"}, {slog.LevelError, "boom"},
		{slog.LevelWarn, "Backtrace:"}, {slog.LevelInfo, "y"},
		{slog.LevelDebug, "gRPC config for a cluster rejected: b"},
		{slog.LevelWarn, "no healthy upstream"}, {slog.LevelDebug, "no healthy upstream"}, // demoted to debug
	}
	if len(got.all) != len(want) {
		t.Fatalf("%d records, want %d", len(got.all), len(want))
	}
	for i, record := range got.all {
		if record.Level != want[i].level || record.Message != want[i].message {
			t.Errorf("record %d: %s %q, want %s %q", i, record.Level, record.Message, want[i].level, want[i].message)
		}
	}
	if w.lastError != "boom" {
		t.Errorf(`the last error is %q, want "boom"`, w.lastError)
	}
}
