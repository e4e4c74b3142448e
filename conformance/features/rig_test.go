package features

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/penstock-project/penstock/conformance/promises/process"
	"github.com/penstock-project/penstock/conformance/promises/process/processtest"
)

var binary, envoy string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if n := flag.Lookup("test.parallel"); n.Value.String() == n.DefValue { // tests mostly wait
		_ = n.Value.Set(fmt.Sprint(2 * runtime.GOMAXPROCS(0)))
	}
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

type site struct {
	processtest.Rig
	state    string
	ports    map[string]int // by name in the YAML
	env      []string       // variables of penstock, in addition to the test's own
	prompts  int            // number of prompts made so far
	flags    []string       // flags of penstock up or serve
	binary   string         // path of penstock; "": built from this tree
	penstock *process.Process
	log      string // path of penstock's output
}

// newSite makes a site. Start its model servers first, then call up.
func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{Rig: processtest.Rig{TB: t, Files: t.TempDir()}, state: processtest.ShortDir(t)}
	s.ports = map[string]int{"gateway": s.Port()}
	return s
}

// server starts a penstock sim. Its responses have the name in x-served-by.
func (s *site) server(name string, args ...string) *process.Process {
	s.Helper()
	s.ports[name] = s.Port()
	p := s.sim(name, append([]string{"--listen", s.address(name)}, args...)...)
	s.Eventually(name+" serves", func() error {
		got, err := s.get("http://" + s.address(name) + "/v1/models")
		if err == nil && got.status != http.StatusOK {
			err = errors.New(got.body)
		}
		return err
	})
	return p
}

func (s *site) sim(name string, args ...string) *process.Process {
	s.Helper()
	p, _ := s.start(name, append([]string{"sim", "--name", name, "--model", "llama", "--grace", "1ms"}, args...)...)
	return p
}

// backend serves at the port NAME of the YAML in this process, for behavior that penstock sim
// lacks.
func (s *site) backend(name string, h http.Handler) *httptest.Server {
	server := httptest.NewServer(h)
	s.Cleanup(server.Close)
	s.ports[name] = server.Listener.Addr().(*net.TCPAddr).Port
	return server
}

// h2c is like backend, for a server that speaks only HTTP/2 with prior knowledge.
func (s *site) h2c(name string, h http.Handler) *httptest.Server {
	server := httptest.NewUnstartedServer(h)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	s.Cleanup(server.Close)
	s.ports[name] = server.Listener.Addr().(*net.TCPAddr).Port
	return server
}

// closed gives NAME a port where nothing listens.
func (s *site) closed(name string) { s.ports[name] = s.Port() }

func (s *site) address(name string) string { return fmt.Sprint("127.0.0.1:", s.ports[name]) }

// up writes a fixture and runs penstock up until the end of the test.
func (s *site) up(fixture string, edits ...edit) {
	s.Helper()
	s.write(fixture, edits...)
	s.run("up", append([]string{"--concurrency", "1"}, s.flags...)...)
	s.logged("serves at")
}

// run starts a long-running command for the site, with a new log.
func (s *site) run(command string, args ...string) {
	s.Helper()
	args = append([]string{command, "-f", s.Files, "--state", s.state, "--log-level", "debug"}, args...)
	s.penstock, s.log = s.program("penstock", cmp.Or(s.binary, binary), args...)
}

// start runs penstock until the test ends. If the test fails, it prints penstock's output.
func (s *site) start(name string, args ...string) (p *process.Process, log string) {
	s.Helper()
	return s.program(name, binary, args...)
}

func (s *site) program(name, path string, args ...string) (p *process.Process, log string) {
	s.Helper()
	log = filepath.Join(s.TempDir(), name+".log")
	p, err := process.Start(name, log, path, append([]string{"ENVOY=" + envoy}, s.env...), args...)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := p.Stop(process.Limit); err != nil {
			s.Error(err)
		}
		if s.Failed() {
			text, _ := os.ReadFile(log)
			s.Logf("%s printed:\n%s", name, text)
		}
	})
	return p, log
}

func (s *site) ads() string { return process.ADS(s.state) }

func (s *site) serve() {
	s.Helper()
	s.run("serve", s.flags...)
	s.logged("ADS at " + s.ads())
}

// twoProcesses serves a fixture with two processes that are peers: this site, and other. Envoys
// that attach to one of them may ask the pickers of both.
func (s *site) twoProcesses(fixture string, edits ...edit) (other *site) {
	s.Helper()
	other = newSite(s.TB)
	other.ports, other.binary = s.ports, s.binary
	all := []*site{s, other}
	pickers := process.Picker(s.state) + "," + process.Picker(other.state)
	for _, at := range all {
		at.write(fixture, edits...)
		at.flags = []string{"--picker-address", pickers, "--peers", s.ads() + "," + other.ads()}
		at.serve()
	}
	for _, at := range all {
		at.logged("connected to a peer")
	}
	return other
}

func (s *site) attach(xds string) {
	s.Helper()
	dir := processtest.ShortDir(s)
	p, err := process.StartEnvoy(binary, envoy, dir, "envoy", "--gateway", "default/gw", "--concurrency", "1",
		"--admin", "unix:"+filepath.Join(dir, "admin.sock"), "--xds", xds)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = p.Stop(process.Limit) })
}

func (s *site) output() string {
	s.Helper()
	text, err := os.ReadFile(s.log)
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

func (s *site) logged(text string) {
	s.Helper()
	s.Eventually("penstock prints "+text, func() error {
		if got := s.output(); !strings.Contains(got, text) {
			return errors.Join(fmt.Errorf("it has printed:\n%s\nwant %q", got, text), s.penstock.Running())
		}
		return nil
	})
}

func (s *site) killEnvoy() {
	s.Helper()
	all := regexp.MustCompile(`Envoy started.* pid=(\d+)`).FindAllStringSubmatch(s.output(), -1)
	if len(all) == 0 {
		s.Fatal("no Envoy has been started")
	}
	pid, _ := strconv.Atoi(all[len(all)-1][1])
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) { // already killed
		s.Fatal(err)
	}
}

// command runs another command for the site, and returns its output. Exit status 1 (there are
// findings) is no error.
func (s *site) command(args ...string) (string, error) {
	cmd := exec.CommandContext(s.Context(), binary, append(args, "-f", s.Files, "--state", s.state)...)
	var errs strings.Builder
	cmd.Env, cmd.Stderr = append(os.Environ(), s.env...), &errs
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 && len(out) > 0 {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("penstock %s: %w\n%s", strings.Join(args, " "), err, &errs)
	}
	return string(out), err
}

func (s *site) print(args ...string) string {
	s.Helper()
	out, err := s.command(args...)
	if err != nil {
		s.Fatalf("%v\n%s", err, out)
	}
	return out
}

func (s *site) explain(args ...string) string {
	s.Helper()
	return s.print(append([]string{"explain"}, args...)...)
}

func (s *site) status() string {
	s.Helper()
	return s.print("status")
}

func (s *site) reports(text string) {
	s.Helper()
	s.Eventually("status reports "+text, func() error {
		if got := s.status(); !strings.Contains(got, text) {
			return errors.New(got)
		}
		return nil
	})
}

func (s *site) page(path string) string {
	s.Helper()
	got, err := s.read(overSocket(filepath.Join(s.state, "api.sock")), "http://penstock"+path)
	if err != nil || got.status != http.StatusOK {
		s.Fatal(got.status, err)
	}
	return got.body
}

func (s *site) metrics() string {
	s.Helper()
	return s.page("/metrics")
}

// series returns the value of one of penstock's metric series; 0: no such series.
func (s *site) series(name string) (value float64) {
	s.Helper()
	for line := range strings.Lines(s.metrics()) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			value, _ = strconv.ParseFloat(strings.TrimSpace(text), 64)
		}
	}
	return value
}

func (s *site) kill() {
	s.penstock.Signal(syscall.SIGKILL)
	<-s.penstock.Ended()
}

// because returns nil if holds is true, otherwise an error that lists the facts.
func because(holds bool, facts ...any) error {
	if holds {
		return nil
	}
	return errors.New(fmt.Sprint(facts...))
}

func portOf(t testing.TB, address string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func (s *site) stop() {
	s.Helper()
	if err := s.penstock.Stop(process.Limit); err != nil {
		s.Fatal(err)
	}
	if code := s.penstock.ExitCode(); code != 0 {
		s.Errorf("penstock has ended with exit status %d, want 0", code)
	}
}
