//go:build engines

package features

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// engineLimit bounds an engine's start. vLLM takes some 70 s on two idle cores.
const engineLimit = 10 * time.Minute

// engine is a real model server. A script in tools/engines starts it in its own process group.
type engine struct {
	name, kind, dir string
	port            int
}

func installed() string { return os.Getenv("ENGINES_DIR") }

// engine starts an engine of a kind (vllm or llamacpp) at the port NAME of the YAML. Its model is
// $MODEL (default tiny), which clients call tiny. It does not wait until the engine serves.
func (s *site) engine(kind, name string, args ...string) *engine {
	s.Helper()
	if installed() == "" {
		s.Fatal("ENGINES_DIR is not set: make test-engines sets it")
	}
	e := &engine{kind: kind, dir: installed(), port: s.ports[name]}
	if e.port == 0 {
		e.port = s.Port()
	}
	s.ports[name] = e.port
	e.name = fmt.Sprintf("%s-%d", name, e.port)
	script, err := filepath.Abs(filepath.Join("..", "tools", "engines", e.kind+".sh"))
	if err != nil {
		s.Fatal(err)
	}
	model := cmp.Or(os.Getenv("MODEL"), "tiny")
	cmd := exec.CommandContext(s.Context(), script, append([]string{e.name, strconv.Itoa(e.port), model}, args...)...)
	cmd.Env = append(os.Environ(), "NOWAIT=1", "SERVED=tiny", "ENGINES_DIR="+e.dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("%s: %v\n%s", e.name, err, out)
	}
	s.Cleanup(func() {
		if s.Failed() {
			text, _ := os.ReadFile(filepath.Join(e.dir, "run", e.name+".log"))
			s.Logf("%s printed:\n%s", e.name, text[max(0, len(text)-4000):])
		}
		e.signal(syscall.SIGKILL)
	})
	return e
}

// publishers chooses consecutive ports for engines a and b, because of their KV events: vllm.sh
// publishes at the engine's port plus 1,000, and replays at the port plus 1,050.
func (s *site) publishers() {
	s.Helper()
	for range 100 {
		first, used := s.Port(), 0
		for _, offset := range []int{1, 1000, 1001, 1050, 1051} {
			l, err := net.Listen("tcp", fmt.Sprint(":", first+offset))
			if err != nil {
				used++
				continue
			}
			_ = l.Close()
		}
		if used == 0 {
			s.ports["a"], s.ports["b"], s.ports["events"], s.ports["replay"] = first, first+1, first+1000, first+1050
			return
		}
	}
	s.Fatal("no ports are free for the engines")
}

func (e *engine) group() int {
	text, _ := os.ReadFile(filepath.Join(e.dir, "run", e.name+".pid"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

func (e *engine) signal(sig syscall.Signal) {
	if pid := e.group(); pid > 1 {
		_ = syscall.Kill(-pid, sig)
	}
}

// core returns the process ID of vLLM's engine core, which runs the model.
func (e *engine) core() (int, error) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	for _, path := range all {
		text, _ := os.ReadFile(path)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if !strings.Contains(string(text), "EngineCore") {
			continue
		}
		if group, err := syscall.Getpgid(pid); err == nil && group == e.group() {
			return pid, nil
		}
	}
	return 0, errors.New("no engine core runs")
}

func (e *engine) url(path string) string { return fmt.Sprint("http://127.0.0.1:", e.port, path) }

func (s *site) starts(all ...*engine) {
	s.Helper()
	end := time.Now().Add(engineLimit)
	for _, e := range all {
		poll.NoError(s, e.name+" serves", time.Until(end), func() error {
			got, err := s.get(e.url("/health"))
			if err == nil && got.status == http.StatusOK {
				return nil
			}
			if err := syscall.Kill(e.group(), 0); err != nil {
				s.Fatalf("%s has ended: %v", e.name, err)
			}
			return fmt.Errorf("got %d %w, want %d", got.status, err, http.StatusOK)
		})
	}
}

// figure prints a figure in the bench's format. limit NaN: no limit.
func figure(name, unit string, value, limit float64, about string) {
	out := map[string]any{"name": name, "value": value, "unit": unit, "limit": nil, "about": about}
	if !math.IsNaN(limit) {
		out["limit"] = limit
	}
	text, _ := json.Marshal(out)
	fmt.Println(string(text))
}
