package processes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

const helperName = "ENGINES_HELPER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(helperName); mode != "" {
		helper(mode)
	}
	os.Exit(m.Run())
}

func helper(mode string) {
	fmt.Println("helper", mode, "starts")
	switch mode {
	case "serve":
		ending := make(chan os.Signal, 1)
		signal.Notify(ending, syscall.SIGTERM)
		go func() { _ = http.ListenAndServe(os.Getenv("LISTEN"), http.HandlerFunc(helperPage)) }()
		<-ending
		fmt.Println("helper ends")
	case "idle":
		idle()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("helper ignores SIGTERM")
		idle()
	case "die":
		fmt.Println("loading with " + os.Getenv("KEY"))
		fmt.Println("\x1b[31mout of memory\x1b[0m")
		os.Exit(3)
	case "flood":
		line := []byte(strings.Repeat("x", 1023) + "\n")
		for {
			_, _ = os.Stdout.Write(line)
			// Wait for the rotation of the log.
			poll.Within(poll.Limit, func() bool { return size(os.Getenv("LOG")) <= 1<<20 })
		}
	case "parent": // a child serves, in its own session and without the mark
		_ = os.Unsetenv(tokenName)
		apart("serve")
		idle()
	case "daemon": // a grandchild serves, after the child has ended
		apart("child")
		idle()
	case "child":
		apart("serve")
	case "client": // a daemon serves for this process, as for docker run
		daemon, err := net.Dial("tcp", os.Getenv("DAEMON"))
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(daemon, os.Getenv("LISTEN"))
		_, _ = io.Copy(os.Stdout, daemon)
	case "worker": // leaves a child in its own session
		fmt.Println("worker", apart("idle"))
		idle()
	case "supervise":
		var wanted []Process
		if err := json.NewDecoder(os.Stdin).Decode(&wanted); err != nil {
			panic(err)
		}
		s, err := open(os.Getenv("DIR"), slog.New(slog.NewTextHandler(os.Stderr, nil)), quick)
		if err != nil {
			panic(err)
		}
		s.Want(wanted)
		fmt.Println("supervises")
		idle()
	}
	os.Exit(0)
}

func apart(mode string) (pid int) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperName+"="+mode)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	if mode == "child" { // avoids a zombie
		_ = cmd.Wait()
	}
	return cmd.Process.Pid
}

// idle waits for the end of the process. Without signal.Notify, the runtime would report a
// deadlock.
func idle() {
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGUSR1)
	<-never
}

// helperPage answers 503 until the file $READY exists, if READY is set.
func helperPage(w http.ResponseWriter, _ *http.Request) {
	if ready := os.Getenv("READY"); ready != "" {
		if _, err := os.Stat(ready); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
}

var quick = timings{
	first: 10 * time.Millisecond, longest: 80 * time.Millisecond, well: time.Hour,
	probe: 20 * time.Millisecond, health: 50 * time.Millisecond, answer: time.Minute, hung: 3, restart: 1 << 30,
	size: 5 * time.Millisecond, locked: 2 * time.Second,
	logLimit: 64 << 10, table: 16,
}

func engine(name, mode string, env ...string) Process {
	return Process{
		Name: name, Command: []string{self(), "-test.run=^$", name}, Inherited: []string{"PATH=" + os.Getenv("PATH")},
		Env: append([]string{helperName + "=" + mode}, env...), StopGrace: 20 * time.Second,
	}
}

func serving(t *testing.T, name string, env ...string) Process {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	address := listener.Addr().String()
	p := engine(name, "serve", append([]string{"LISTEN=" + address}, env...)...)
	p.Ready = "http://" + address + "/health"
	return p
}

func self() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

func supervise(t *testing.T, dir string, change ...func(*timings)) *Supervisor {
	t.Helper()
	chosen := quick
	for _, f := range change {
		f(&chosen)
	}
	s, err := open(dir, slog.New(slog.NewTextHandler(t.Output(), nil)), chosen)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		end(t, dir)
	})
	return s
}

// end kills the folder's engines and their workers, which it finds by their logs.
func end(t *testing.T, dir string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "*"+logEnd))
	if err != nil {
		t.Fatal(err)
	}
	for _, log := range logs {
		poll.Until(t, "all engines have ended", func() bool {
			sweep(mark{log: log})
			return len(find([]mark{{log: log}})[0]) == 0
		})
	}
}

func stateOf(s *Supervisor, name string) State {
	states := s.States()
	if i := slices.IndexFunc(states, func(st State) bool { return st.Name == name }); i >= 0 {
		return states[i]
	}
	return State{Phase: -1}
}

func until(t *testing.T, s *Supervisor, name, what string, holds func(State) bool) (st State) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("the state is %+v", st)
		}
	}()
	poll.Until(t, name+": "+what, func() bool { st = stateOf(s, name); return holds(st) })
	return st
}

func untilPhase(t *testing.T, s *Supervisor, name string, want Phase) State {
	t.Helper()
	return until(t, s, name, want.String(), func(st State) bool { return st.Phase == want })
}

func alive(pid int) bool {
	_, ok := identity(pid)
	return ok
}

type parent struct {
	cmd *exec.Cmd
	out *os.File
}

func startParent(t *testing.T, dir string, wanted []Process) *parent {
	t.Helper()
	raw, err := json.Marshal(wanted)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self())
	cmd.Env = append(os.Environ(), helperName+"=supervise", "DIR="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(string(raw)), out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &parent{cmd: cmd, out: out}
}

func (p *parent) kill(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := p.cmd.Wait(); !errors.As(err, &exit) {
		t.Fatalf("the supervisor ended with %v", err)
	}
	_ = p.out.Close()
}

func content(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func workerOf(t *testing.T, log string) (pid int) {
	t.Helper()
	poll.Until(t, "a worker starts", func() bool {
		_, rest, _ := strings.Cut(content(t, log), "worker ")
		for _, field := range strings.Fields(rest) {
			if n, err := strconv.Atoi(field); err == nil {
				pid = n
			}
		}
		return pid != 0
	})
	return pid
}
