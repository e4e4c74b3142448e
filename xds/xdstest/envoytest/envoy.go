package envoytest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-project/penstock/xds/bootstrap"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// Config configures an Envoy.
type Config struct {
	// Bootstrap is YAML or JSON; its admin section is replaced.
	Bootstrap []byte
	// Default: "--disable-hot-restart --concurrency 2 --drain-time-s 5 --drain-strategy immediate".
	Args []string
	// LogLevel is Envoy's log level. Default: info.
	LogLevel string
	// Timeout limits the Wait methods. Default: 30 s.
	Timeout time.Duration
}

// Envoy is a running process. It is safe for concurrent use.
type Envoy struct {
	t       testing.TB
	cmd     *exec.Cmd
	dir     string
	client  *http.Client
	timeout time.Duration
	log     lockedBuffer
	done    chan struct{}
	err     error // valid after done closes
}

// Start runs Envoy until the end of the test.
func Start(t testing.TB, c Config) *Envoy {
	t.Helper()
	// A socket's path has at most 107 bytes, and tests have long names.
	dir, err := os.MkdirTemp("", "envoy")
	if err != nil {
		t.Fatalf("envoytest: %v", err)
	}
	path, socket := filepath.Join(dir, "bootstrap.yaml"), filepath.Join(dir, "admin")
	if err := os.WriteFile(path, c.Bootstrap, 0o600); err != nil {
		t.Fatalf("envoytest: %v", err)
	}
	if c.Args == nil {
		c.Args = []string{"--disable-hot-restart", "--concurrency", "2", "--drain-time-s", "5", "--drain-strategy",
			"immediate"}
	}
	if c.LogLevel == "" {
		c.LogLevel = "info"
	}
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	args := append([]string{"-c", path, "-l", c.LogLevel,
		"--config-yaml", fmt.Sprintf(`{"admin":{"address":{"pipe":{"path":%q}}}}`, socket)}, c.Args...)
	e := &Envoy{t: t, dir: dir, timeout: c.Timeout, done: make(chan struct{})}
	e.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	e.cmd = exec.Command(Binary(t), args...)
	e.cmd.Stdout, e.cmd.Stderr = &e.log, &e.log
	if err := e.cmd.Start(); err != nil {
		t.Fatalf("envoytest: start: %v", err)
	}
	go func() {
		e.err = e.cmd.Wait()
		close(e.done)
	}()
	t.Cleanup(e.cleanup)
	return e
}

// StartGateway runs an Envoy with the bootstrap of a proxy.
func StartGateway(t testing.TB, c bootstrap.Config) *Envoy {
	t.Helper()
	if c.Concurrency == 0 {
		c.Concurrency = 2
	}
	file, err := bootstrap.YAML(c)
	if err != nil {
		t.Fatalf("envoytest: %v", err)
	}
	return Start(t, Config{Bootstrap: file, Args: c.Args()})
}

// Stop kills the process, like a crash.
func (e *Envoy) Stop() {
	_ = e.cmd.Process.Signal(syscall.SIGCONT) // the process may be frozen
	_ = e.cmd.Process.Kill()
	<-e.done
}

// Freeze stops the process with SIGSTOP.
func (e *Envoy) Freeze() { _ = e.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw ends a Freeze.
func (e *Envoy) Thaw() { _ = e.cmd.Process.Signal(syscall.SIGCONT) }

func (e *Envoy) AdminSocket() string { return filepath.Join(e.dir, "admin") }

func (e *Envoy) Log() string { return e.log.String() }

func (e *Envoy) cleanup() {
	e.Stop()
	e.client.CloseIdleConnections()
	if e.t.Failed() {
		e.t.Logf("Envoy's log:\n%s", tail(e.Log(), 200))
	}
	_ = os.RemoveAll(e.dir)
}

// Get reads the admin interface. Any status but 200 is an error.
func (e *Envoy) Get(path string) ([]byte, error) { return e.request(http.MethodGet, path) }

// Post sends a command to the admin interface.
func (e *Envoy) Post(path string) ([]byte, error) { return e.request(http.MethodPost, path) }

func (e *Envoy) request(method, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://admin"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, body)
	}
	return body, err
}

func (e *Envoy) ConfigDump() []byte { return e.mustGet("/config_dump?include_eds") }

func (e *Envoy) Clusters() []byte { return e.mustGet("/clusters?format=json") }

// Stats returns the counters and gauges whose names match a regular expression.
func (e *Envoy) Stats(filter string) map[string]int64 {
	e.t.Helper()
	var answer struct {
		Stats []struct {
			Name  string      `json:"name"`
			Value json.Number `json:"value"`
		} `json:"stats"`
	}
	path := "/stats?format=json"
	if filter != "" {
		path += "&filter=" + filter
	}
	if err := json.Unmarshal(e.mustGet(path), &answer); err != nil {
		e.t.Fatalf("envoytest: %s: %v", path, err)
	}
	out := make(map[string]int64, len(answer.Stats))
	for _, s := range answer.Stats {
		if n, err := s.Value.Int64(); err == nil {
			out[s.Name] = n
		}
	}
	return out
}

func (e *Envoy) mustGet(path string) []byte {
	e.t.Helper()
	body, err := e.Get(path)
	if err != nil {
		e.t.Fatalf("envoytest: %v", err)
	}
	return body
}

// Live reports whether Envoy has its whole configuration (/ready).
func (e *Envoy) Live() bool {
	_, err := e.Get("/ready")
	return err == nil
}

func (e *Envoy) WaitLive() {
	e.t.Helper()
	e.Wait("Envoy is live", e.Live)
}

// Wait polls ok. It fails the test after Config.Timeout, or when Envoy has ended.
func (e *Envoy) Wait(what string, ok func() bool) {
	e.t.Helper()
	poll.For(e.t, what, e.timeout, func() bool {
		if ok() {
			return true
		}
		select {
		case <-e.done:
			e.t.Fatalf("envoytest: Envoy ended (%v) before: %s", e.err, what)
		default:
		}
		return false
	})
}

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
