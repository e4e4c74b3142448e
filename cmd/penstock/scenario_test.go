package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
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

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/penstock-project/penstock/xds/bootstrap"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/xdstest"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// TestScenario_Scripts runs testdata/scenario, each script once with the strict fake Envoy and once
// with the real one. A script's commands are the verbs of `penstock debug`, and:
//
//	start                      start `penstock serve -f config`, and an Envoy of Gateway
//	                           default/gw
//	restart                    end penstock, and start it again at the same addresses
//	proxy GATEWAY              start one more Envoy, of another Gateway
//	save FILE [AS]             save a file into config, as an editor does; `remove FILE` deletes
//	                           it there
//	serves PORT BACKEND        wait until requests to a port get to a backend: A, B, C, or none
//	occupy PORT, release PORT  hold a port, so that Envoy cannot listen there, and release it
//	until [!] REGEXP VERB...   repeat a verb until its output matches, or no longer matches
//
// tls-secret.yaml is a Secret "cert" with a certificate and its key; $KEY_BASE64 is that key as the
// Secret has it. Files may contain @PORT@, @PORT2@ (for listeners) and @A@, @B@, @C@ (ports of
// backends on 127.0.0.1). $NODE is the Envoy's node ID.
func TestScenario_Scripts(t *testing.T) {
	for _, real := range []bool{false, true} {
		name := "fake"
		if real {
			name = "envoy"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testscript.Run(t, testscript.Params{
				Dir:                 "testdata/scenario",
				RequireExplicitExec: true,
				Setup:               func(e *testscript.Env) error { return newScenario(e, real) },
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"start": command(0, 0, (*scenario).start), "restart": command(0, 0, (*scenario).restart),
					"proxy": command(1, 1, (*scenario).proxy),
					"save":  command(1, 2, (*scenario).save), "remove": command(1, 1, (*scenario).remove),
					"serves": command(2, 2, (*scenario).serves),
					"occupy": command(1, 1, (*scenario).occupy), "release": command(1, 1, (*scenario).release),
					"until": until, "store": verb("store"), "graph": verb("graph"), "xds": verb("xds"),
					"picker": verb("picker"),
				},
			})
		})
	}
}

type scenario struct {
	t        testing.TB
	dir      string // the script's folder, with config below it
	state    string
	real     bool
	xds      string
	picker   string
	ports    map[string]string
	backends map[string]string // port -> name
	process  *exec.Cmd
	log      *transcript
	fakes    map[string]*xdstest.Fake // by gateway

	mu       sync.Mutex
	occupied map[string]net.Listener
}

type scenarioKey struct{}

func newScenario(e *testscript.Env, real bool) error {
	t := e.T().(testing.TB)
	state, err := os.MkdirTemp("", "ps") // a short path, because a Unix socket's path is limited
	if err != nil {
		return err
	}
	s := &scenario{t: t, dir: e.WorkDir, state: state, real: real, ports: map[string]string{},
		backends: map[string]string{}, occupied: map[string]net.Listener{}, fakes: map[string]*xdstest.Fake{}}
	e.Values[scenarioKey{}] = s
	e.Defer(func() { _ = os.RemoveAll(state) })
	s.xds, s.picker = unixPrefix+filepath.Join(state, socketOfADS), fmt.Sprintf("127.0.0.1:%d", envoytest.FreePort(t))
	s.ports["PORT"], s.ports["PORT2"] = fmt.Sprint(envoytest.FreePort(t)), fmt.Sprint(envoytest.FreePort(t))
	for _, name := range []string{"A", "B", "C"} {
		server := httptest.NewServer(
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }))
		e.Defer(server.Close)
		_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
		s.ports[name], s.backends[port] = port, name
	}
	for name, port := range s.ports {
		e.Setenv(name, port)
	}
	e.Setenv("NODE", s.node("default/gw"))
	cert, key := certificate(t, "localhost")
	e.Setenv("KEY_BASE64", base64.StdEncoding.EncodeToString(key))
	if err := os.WriteFile(filepath.Join(e.WorkDir, "tls-secret.yaml"), []byte(secretYAML("cert", cert, key)),
		0o600); err != nil {
		return err
	}
	return filepath.WalkDir(e.WorkDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for name, port := range s.ports {
			text = []byte(strings.ReplaceAll(string(text), "@"+name+"@", port))
		}
		return os.WriteFile(path, text, 0o600)
	})
}

func (s *scenario) node(gateway string) string {
	return "proxy-of-" + strings.ReplaceAll(gateway, "/", "-")
}

func command(min, max int, run func(*scenario, []string) error) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) < min || len(args) > max {
			ts.Fatalf("got %d arguments, want %d to %d, and no negation", len(args), min, max)
		}
		ts.Check(run(ts.Value(scenarioKey{}).(*scenario), args))
	}
}

// verb returns a script command for `penstock debug NAME`.
func verb(name string) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		var out, complaints bytes.Buffer
		err := runCommand(words(ts, append([]string{name}, args...)), &out, &complaints)
		_, _ = ts.Stdout().Write(out.Bytes())
		_, _ = ts.Stderr().Write(complaints.Bytes())
		if neg && err == nil {
			ts.Fatalf("penstock debug %s %v succeeded, want an error", name, args)
		}
		if !neg {
			ts.Check(err)
		}
	}
}

// runCommand runs penstock in this process, ten times cheaper than another process.
func runCommand(args []string, out, complaints io.Writer) error {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(complaints)
	err := root.ExecuteContext(context.Background())
	if err != nil {
		fmt.Fprintln(complaints, err)
	}
	return err
}

func words(ts *testscript.TestScript, args []string) []string {
	s := ts.Value(scenarioKey{}).(*scenario)
	if args[0] != "status" {
		args = append([]string{"debug"}, args...)
	}
	return append(slices.Clone(args), "-f", filepath.Join(s.dir, "config"), "--state", s.state)
}

func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("got the arguments %q, want until [!] REGEXP VERB...", args)
	}
	matches := true
	if args[0] == "!" {
		matches, args = false, args[1:]
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	line := words(ts, args[1:])
	var out bytes.Buffer
	met := poll.Within(poll.Limit, func() bool {
		out.Reset()
		_ = runCommand(line, &out, &out) // an error means that the process does not serve yet
		return want.Match(out.Bytes()) == matches
	})
	_, _ = ts.Stdout().Write(out.Bytes())
	if !met {
		ts.Fatalf("match of %q never became %v", want, matches)
	}
}

func (s *scenario) start([]string) error {
	if err := s.serve(); err != nil {
		return err
	}
	return s.proxy([]string{"default/gw"})
}

func (s *scenario) serve() error {
	s.log = newTranscript()
	s.process = exec.Command("penstock", "serve", "-f", filepath.Join(s.dir, "config"), "--state", s.state, "--picker",
		s.picker, "--drain-time", "1s")
	s.process.Stdout, s.process.Stderr = s.log, s.log
	if err := s.process.Start(); err != nil {
		return err
	}
	process, log := s.process, s.log
	s.t.Cleanup(func() {
		_ = process.Process.Signal(syscall.SIGTERM)
		_ = process.Wait()
		if s.t.Failed() {
			s.t.Logf("penstock serve logged:\n%s", log)
		}
	})
	return nil
}

func (s *scenario) restart([]string) error {
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	_ = s.process.Wait()
	if err := s.serve(); err != nil {
		return err
	}
	for _, f := range s.fakes {
		f.Reconnect(s.xds) // the real Envoy reconnects by itself
	}
	return nil
}

func (s *scenario) proxy(args []string) error {
	gateway := args[0]
	if s.real {
		envoytest.StartGateway(s.t, bootstrap.Config{
			Gateway: gateway, NodeID: s.node(gateway), ADS: []string{s.xds}, Concurrency: 1, DrainTime: time.Second,
		})
		return nil
	}
	if err := s.reachable(); err != nil {
		return err
	}
	s.fakes[gateway] = xdstest.StartFake(s.t, xdstest.FakeConfig{
		Address: s.xds, Gateway: gateway, Node: s.node(gateway), Rejects: s.cannotBind,
	})
	return nil
}

// reachable waits until the control plane listens, because the fake Envoy does not retry.
func (s *scenario) reachable() error {
	if !poll.Within(poll.Limit, func() bool {
		conn, err := net.Dial("unix", strings.TrimPrefix(s.xds, unixPrefix))
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}) {
		return fmt.Errorf("penstock serve never listened at %s:\n%s", s.xds, s.log)
	}
	return nil
}

// cannotBind returns Envoy's error for a listener whose port is in use; "" if the port is free.
func (s *scenario) cannotBind(ref resource.Ref) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for port := range s.occupied {
		if ref.Type == resource.Listener && strings.HasSuffix(ref.Name, port) {
			return fmt.Sprintf("error adding listener: cannot bind '0.0.0.0:%s': Address already in use", port)
		}
	}
	return ""
}

func (s *scenario) occupy(args []string) error {
	l, err := net.Listen("tcp4", "0.0.0.0:"+args[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.occupied[args[0]] = l
	return err
}

func (s *scenario) release(args []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.occupied[args[0]].Close()
	delete(s.occupied, args[0])
	return err
}

func (s *scenario) save(args []string) error {
	text, err := os.ReadFile(filepath.Join(s.dir, args[0]))
	if err != nil {
		return err
	}
	target := filepath.Join(s.dir, "config", filepath.Base(args[len(args)-1]))
	if err := os.WriteFile(target+"~", text, 0o600); err != nil {
		return err
	}
	return os.Rename(target+"~", target)
}

func (s *scenario) remove(args []string) error {
	return os.Remove(filepath.Join(s.dir, "config", args[0]))
}

// serves waits until a port gets to a backend, by requests to the real Envoy, or by evaluating the
// fake's configuration.
func (s *scenario) serves(args []string) error {
	port, err := strconv.ParseUint(args[0], 10, 16)
	if err != nil {
		return err
	}
	got := ""
	if poll.Within(poll.Limit, func() bool { got = s.backend(uint32(port)); return got == args[1] }) {
		return nil
	}
	return fmt.Errorf("requests to port %d get to %q, want %s", port, got, args[1])
}

func (s *scenario) backend(port uint32) string {
	if !s.real {
		for _, f := range s.fakes {
			if backends := f.Backends(port); len(backends) > 0 {
				return s.backends[fmt.Sprint(backends[0])]
			}
		}
		return "none"
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
	if err != nil {
		return "none"
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return "none"
	}
	return string(body)
}
