package features

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

// binary is the penstock that all tests run; envoy is its Envoy.
var binary, envoy string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "features")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if binary, err = process.Penstock(context.Background(), dir); err == nil {
		envoy, err = process.Envoy(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

var (
	ports     process.Ports
	portsLock sync.Mutex
)

func freePort(t *testing.T) int {
	t.Helper()
	portsLock.Lock()
	defer portsLock.Unlock()
	port, err := ports.Free()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// site is one penstock up over a folder with one file.
type site struct {
	t          *testing.T
	dir, state string
	ports      map[string]int // by name in the YAML
}

// newSite begins a site. Its model servers are started first, then up.
func newSite(t *testing.T) *site {
	t.Helper()
	state, err := os.MkdirTemp("", "ps") // not t.TempDir: the path of a Unix socket may not be long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	return &site{t: t, dir: t.TempDir(), state: state, ports: map[string]int{"gateway": freePort(t)}}
}

// server starts a model server with a name, which its responses have in x-served-by. args are
// further ones of penstock sim.
func (s *site) server(name string, args ...string) *process.Process {
	s.t.Helper()
	s.ports[name] = freePort(s.t)
	p := s.start(name, append([]string{"sim", "--name", name, "--model", "llama", "--port", fmt.Sprint(s.ports[name])}, args...)...)
	s.until(name+" serves", func() error { return p.Answers(fmt.Sprintf("http://127.0.0.1:%d/v1/models", s.ports[name])) })
	return p
}

// up writes a fixture and runs penstock up until the end of the test.
func (s *site) up(fixture string) {
	s.t.Helper()
	s.write(fixture)
	s.start("penstock", "up", "-f", s.dir, "--state", s.state, "--concurrency", "1")
	s.until("requests are answered", func() error {
		if got, err := s.ask("/", question); err != nil || got.status >= 500 && got.header.Get("x-penstock-reason") == "" {
			return fmt.Errorf("%d %s %w", got.status, got.body, err)
		}
		return nil
	})
}

// write saves a fixture, with ports for names and texts replaced, as editors do: to another file,
// which is then renamed.
func (s *site) write(fixture string, replace ...string) {
	s.t.Helper()
	text, err := os.ReadFile(fixture)
	if err != nil {
		s.t.Fatal(err)
	}
	out := os.Expand(strings.NewReplacer(replace...).Replace(string(text)), func(name string) string {
		port, ok := s.ports[name]
		if !ok {
			s.t.Errorf("%s names %s, which is no model server of the test", fixture, name)
		}
		return fmt.Sprint(port)
	})
	path := filepath.Join(s.dir, "site.yaml")
	if err := errors.Join(os.WriteFile(path+"~", []byte(out), 0o600), os.Rename(path+"~", path)); err != nil {
		s.t.Fatal(err)
	}
}

// start runs penstock until the end of the test, which prints its log if it fails.
func (s *site) start(name string, args ...string) *process.Process {
	s.t.Helper()
	log := filepath.Join(s.t.TempDir(), name+".log")
	p, err := process.Start(name, log, binary, []string{"ENVOY=" + envoy}, args...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := p.Stop(process.Limit); err != nil {
			s.t.Error(err)
		}
		if s.t.Failed() {
			text, _ := os.ReadFile(log)
			s.t.Logf("%s printed:\n%s", name, text)
		}
	})
	return p
}

// explain runs penstock explain over the site.
func (s *site) explain(args ...string) string {
	s.t.Helper()
	out, err := exec.CommandContext(s.t.Context(), binary, append([]string{"explain", "-f", s.dir, "--state", s.state}, args...)...).Output()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) { // 1: it has findings
		s.t.Fatalf("penstock explain %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// url returns the URL of chat completions below a path of the site's Gateway.
func (s *site) url(path string) string {
	return fmt.Sprintf("http://127.0.0.1:%d%s", s.ports["gateway"], strings.TrimSuffix(path, "/")+"/v1/chat/completions")
}

const question = `{"model": "llama", "messages": [{"role": "user", "content": "repeat this"}]}`

// reply is a response, read to its end.
type reply struct {
	status int
	header http.Header
	body   string
}

// by is the model server that has answered.
func (r reply) by() string { return r.header.Get("x-served-by") }

// ask sends a chat completion to a path. headers are names and values.
func (s *site) ask(path, body string, headers ...string) (reply, error) {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url(path), strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("content-type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{Timeout: process.Limit, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(text)}, err
}

// served sends a request that must be answered 200, and returns by whom.
func (s *site) served(path string, headers ...string) string {
	s.t.Helper()
	got, err := s.ask(path, question, headers...)
	if err != nil || got.status != http.StatusOK {
		s.t.Fatalf("%s: %d %s %v", path, got.status, got.body, err)
	}
	return got.by()
}

// occupy begins a response that lasts until the returned function is called, and returns by whom.
func (s *site) occupy(path string) (by string, end func(), err error) {
	ctx, end := context.WithCancel(s.t.Context())
	body := fmt.Sprintf(`{"model": "llama", "stream": true, "messages": [{"role": "user", "content": %q}]}`, strings.Repeat("word ", 3000))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url(path), strings.NewReader(body))
	if err != nil {
		return "", end, err
	}
	req.Header.Set("content-type", "application/json")
	resp, err := (&http.Client{}).Do(req)
	if err != nil {
		return "", end, err
	}
	s.t.Cleanup(func() { end(); _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		return "", end, fmt.Errorf("status %d", resp.StatusCode)
	}
	return resp.Header.Get("x-served-by"), end, nil
}

// until polls a condition until it holds.
func (s *site) until(what string, check func() error) {
	s.t.Helper()
	if err := process.Eventually(s.t.Context(), what, check); err != nil {
		s.t.Fatal(err)
	}
}
