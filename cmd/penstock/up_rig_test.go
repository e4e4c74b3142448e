package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/modelserver"
	"github.com/penstock-project/penstock/xds/supervisor"
	"github.com/penstock-project/penstock/xds/xdstest/freeport"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// pollTimeout bounds each wait of a test. On an idle machine, waits take less than a second.
const pollTimeout = 30 * time.Second

// site is a `penstock up` process with its own folder.
type site struct {
	t          *testing.T
	dir, state string
	args, env  []string
	cmd        *exec.Cmd
	ended      chan struct{} // closed when the process has ended
	out, errs  *transcript
}

// up starts penstock up with files, and waits until it serves. The end of the test stops it.
func up(t *testing.T, files map[string]string, args ...string) *site {
	t.Helper()
	s := prepare(t, files, args...)
	s.start()
	s.out.expect(t, "serves at")
	return s
}

func prepare(t *testing.T, files map[string]string, args ...string) *site {
	t.Helper()
	envoy, err := supervisor.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// t.TempDir's path may be too long for a Unix socket.
	state, err := os.MkdirTemp("", "ps")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	s := &site{t: t, dir: t.TempDir(), state: state, args: args, env: []string{"ENVOY=" + envoy.Path}}
	for name, text := range files {
		s.write(name, text)
	}
	return s
}

func (s *site) ads() string { return "unix:" + filepath.Join(s.state, socketOfADS) }

func (s *site) start() {
	s.t.Helper()
	s.run("up", append([]string{"--concurrency", "1"}, s.args...)...)
}

func (s *site) run(command string, args ...string) {
	s.t.Helper()
	s.exec(append([]string{command, "-f", s.dir, "--state", s.state, "--log-level", "debug"}, args...)...)
}

func (s *site) exec(args ...string) {
	s.t.Helper()
	s.out, s.errs = newTranscript(), newTranscript()
	s.cmd = exec.Command("penstock", args...) // TestMain has put penstock on PATH
	s.cmd.Env = append(os.Environ(), s.env...)
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.errs
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended, cmd, out, errs := make(chan struct{}), s.cmd, s.out, s.errs // a later run replaces these fields
	s.ended = ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(pollTimeout):
			_ = cmd.Process.Kill()
			<-ended
			s.t.Errorf("penstock did not end; it printed:\n%s", errs)
		}
		if s.t.Failed() {
			s.t.Logf("penstock %s printed:\n%s%s", args[0], out, errs)
		}
	})
}

// stop sends SIGTERM, waits for the process's end, and returns its exit status.
func (s *site) stop() int {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	select {
	case <-s.ended:
	case <-time.After(pollTimeout):
		s.t.Fatalf("penstock did not end within %s of SIGTERM:\n%s", pollTimeout, s.errs)
	}
	return s.cmd.ProcessState.ExitCode()
}

func (s *site) envoys() []int {
	var pids []int
	for _, m := range regexp.MustCompile(`Envoy started.* pid=(\d+)`).FindAllStringSubmatch(s.errs.String(), -1) {
		pid, _ := strconv.Atoi(m[1])
		pids = append(pids, pid)
	}
	return pids
}

func (s *site) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path+"~", []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) remove(name string) {
	s.t.Helper()
	if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
		s.t.Fatal(err)
	}
}

// penstock runs a command for the site's folder. Exit status 1, for findings, is accepted.
func (s *site) penstock(args ...string) string {
	s.t.Helper()
	out, err := penstock(s.t, append(args, "-f", s.dir, "--state", s.state)...)
	if err != nil && !errors.Is(err, exitCode(1)) {
		s.t.Fatalf("penstock %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func newTranscript() *transcript { return &transcript{} }

func (tr *transcript) Write(b []byte) (int, error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.text.Write(b)
}

func (tr *transcript) String() string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.text.String()
}

func (tr *transcript) expect(t *testing.T, text string) {
	t.Helper()
	eventually(t, fmt.Sprintf("the output has %q", text), func() error {
		if !strings.Contains(tr.String(), text) {
			return fmt.Errorf("it is:\n%s\nwant %q", tr, text)
		}
		return nil
	})
}

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	poll.NoError(t, what, poll.Limit, check)
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func modelServer(t *testing.T, cfg modelserver.Config) string {
	t.Helper()
	cfg.Model, cfg.Log, cfg.Grace = cmp.Or(cfg.Model, "llama"), slog.New(slog.DiscardHandler), time.Millisecond
	if cfg.Listen == nil {
		cfg.Listen = []string{"127.0.0.1:0"}
	}
	server, err := modelserver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := server.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Run(ctx) // an error means that the test's end cut a request
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return addresses[0]
}

func serverNamed(t *testing.T, name string) string {
	t.Helper()
	return modelServer(t, modelserver.Config{Name: name})
}

type reply struct {
	status int
	header http.Header
	body   string
}

// client returns an HTTP client with a new connection for each request, and without redirects.
func client() *http.Client {
	return &http.Client{Timeout: pollTimeout, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}
}

func do(c *http.Client, req *http.Request) (reply, error) {
	resp, err := c.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(body)}, err
}

const question = `{"model": "llama", "messages": [{"role": "user", "content": "repeat this"}]}`

func chat(ctx context.Context, url string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions",
		strings.NewReader(question))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("content-type", "application/json")
	return do(client(), req)
}

func answers(t *testing.T, url string, status int) reply {
	t.Helper()
	var got reply
	eventually(t, fmt.Sprintf("%s answers %d", url, status), func() (err error) {
		if got, err = chat(t.Context(), url); err == nil && got.status != status {
			err = fmt.Errorf("got %d: %s, want %d", got.status, got.body, status)
		}
		return err
	})
	return got
}

func ask(t *testing.T, url, body string, pairs ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions",
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(pairs); i += 2 {
		req.Header.Set(pairs[i], pairs[i+1])
	}
	got, err := do(client(), req)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// stream requests a streamed response, and calls see with each event before [DONE].
func stream(ctx context.Context, url, prompt string, see func(event string)) error {
	body := fmt.Sprintf(`{"model": "llama", "stream": true, "messages": [{"role": "user", "content": %q}]}`, prompt)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := client().Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("got status %d, want 200", resp.StatusCode)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		event, ok := strings.CutPrefix(lines.Text(), "data: ")
		if event == "[DONE]" {
			return nil
		}
		if ok {
			see(event)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

type traffic struct {
	stop   context.CancelFunc
	done   chan struct{}
	mu     sync.Mutex
	sent   int
	failed []string
}

func sendTraffic(t *testing.T, url string) *traffic {
	ctx, stop := context.WithCancel(t.Context())
	tr := &traffic{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(tr.done)
		for ctx.Err() == nil {
			got, err := chat(ctx, url)
			if ctx.Err() != nil {
				return
			}
			tr.mu.Lock()
			tr.sent++
			if err != nil || got.status != http.StatusOK {
				tr.failed = append(tr.failed, fmt.Sprintf("request %d: %d %s %v", tr.sent, got.status, got.body, err))
			}
			tr.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		stop()
		<-tr.done
	})
	return tr
}

func (tr *traffic) flows(t *testing.T, requests int) {
	t.Helper()
	tr.mu.Lock()
	want := tr.sent + requests
	tr.mu.Unlock()
	eventually(t, "requests are answered", func() error {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		if tr.sent < want {
			return fmt.Errorf("%d requests, want %d", tr.sent, want)
		}
		return nil
	})
}

func (tr *traffic) end(t *testing.T) {
	t.Helper()
	tr.stop()
	<-tr.done
	if len(tr.failed) > 0 {
		t.Errorf("%d of %d requests failed, want none:\n%s", len(tr.failed), tr.sent,
			strings.Join(tr.failed[:min(5, len(tr.failed))], "\n"))
	}
}

func (tr *traffic) endWithFew(t *testing.T, few int) {
	t.Helper()
	tr.stop()
	<-tr.done
	t.Logf("%d of %d requests failed", len(tr.failed), tr.sent)
	if n := len(tr.failed); n > few {
		t.Errorf("%d requests failed; the first one: %s, want at most %d", n, tr.failed[0], few)
	}
}

func gatewayYAML(name string, port int) string {
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: %s}
spec:
  gatewayClassName: penstock
  addresses: [{value: 127.0.0.1}]
  listeners: [{name: http, port: %d, protocol: HTTP}]
`, name, port)
}

func routeYAML(name, path, backend string) string {
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %s}
spec:
  parentRefs: [{name: gw}]
  rules:
  - matches: [{path: {type: PathPrefix, value: %s}}]
    filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}]
    backendRefs: [%s]
`, name, path, backend)
}

func toPool(name string) string {
	return "{group: inference.networking.k8s.io, kind: InferencePool, name: " + name + "}"
}

func poolYAML(name string) string {
	return fmt.Sprintf(`apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: %s}
spec:
  selector: {matchLabels: {app: %s}}
  targetPorts: [{number: 8000}]
`, name, name)
}

func serversYAML(name string, addresses ...string) string {
	text := fmt.Sprintf(`apiVersion: penstock.dev/v1alpha1
kind: ModelServers
metadata: {name: %s, labels: {app: %s}}
spec:
  servers:
`, name, name)
	for _, a := range slices.Sorted(slices.Values(addresses)) {
		host, port, _ := net.SplitHostPort(a)
		text += fmt.Sprintf("  - {address: %s, ports: [%s]}\n", host, port)
	}
	return text
}

func chatFiles(port int, servers ...string) map[string]string {
	return map[string]string{
		"gateway.yaml": gatewayYAML("gw", port),
		"route.yaml":   routeYAML("chat", "/", toPool("chat")),
		"pool.yaml":    poolYAML("chat"),
		"servers.yaml": serversYAML("chat", servers...),
	}
}

func local(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }

// leastLoad is a PoolPolicy that selects the least loaded cluster of the import %[1]s.
const leastLoad = `apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: selection}
spec:
  targetRef: {group: inference.networking.x-k8s.io, kind: InferencePoolImport, name: %[1]s}
  selection: {policy: LeastLoad}
`
