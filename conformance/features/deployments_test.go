package features

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// deploy serves a fixture whose model servers penstock starts. The servers end after the test.
func (s *site) deploy(edits ...edit) {
	s.Helper()
	s.deployFixture("deployments.yaml", edits...)
	s.answers("/", 200)
}

func (s *site) deployFixture(fixture string, edits ...edit) {
	s.Helper()
	s.Cleanup(func() {
		cmd := exec.CommandContext(context.Background(), binary, "down", "-f", s.Files, "--state", s.state)
		if out, err := cmd.CombinedOutput(); err != nil {
			s.Errorf("penstock down: %v\n%s", err, out)
		}
	})
	s.up(fixture, edits...)
}

// engines returns the process IDs of model servers, by the names of their records.
func engines(t testing.TB, state string) map[string]int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(state, "engines", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		var record struct{ PID int }
		if err == nil {
			err = json.Unmarshal(raw, &record)
		}
		if err != nil {
			t.Fatal(file, err)
		}
		out[filepath.Base(file)] = record.PID
	}
	return out
}

func (s *site) engine1() int {
	s.Helper()
	all := engines(s, s.state)
	if len(all) != 1 {
		s.Fatalf("model servers: %v, want one", all)
	}
	for _, pid := range all {
		return pid
	}
	return 0
}

func TestDeployment_StartsItsServerAndOutlivesUp(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.deploy()
	if by := s.served("/"); by != "llama-0" {
		t.Errorf("%s answers, want llama-0", by)
	}
	if got, err := s.get(s.base() + "/v1/models"); err != nil || !strings.Contains(got.body, `"llama"`) {
		t.Errorf("the models are %s %v, want llama", got.body, err)
	}
	s.reports("InferencePool   PARENT")
	s.reports("Running: 1 of 1 servers of model llama are ready; serviceURL " + s.base() + "/v1")
	const ready = "ModelDeployment default/llama Ready=True"
	if got := s.explain(s.url("/"), "--model", "llama"); !strings.Contains(got, ready) {
		t.Errorf("explain: got\n%s\nwant %q", got, ready)
	}
	if files, err := os.ReadDir(s.Files); err != nil || len(files) != 1 {
		t.Errorf("the folder has %v %v, want the fixture alone", files, err)
	}
	before := s.engine1()
	for _, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		s.penstock.Signal(end)
		<-s.penstock.Ended()
		got, err := s.get(fmt.Sprintf("http://127.0.0.1:%d/health", s.enginePort()))
		if err != nil || got.status != 200 {
			t.Fatalf("after %s the server answers %d %v, want 200", end, got.status, err)
		}
		s.up("deployments.yaml")
		s.answers("/", 200)
		if after := s.engine1(); after != before {
			t.Fatalf("after %s process %d serves, want %d, which has its weights loaded", end, after, before)
		}
	}
	s.penstock.Signal(syscall.SIGINT)
	<-s.penstock.Ended()
	s.Eventually("Ctrl-C ends the server", func() error {
		return because(errors.Is(syscall.Kill(before, 0), syscall.ESRCH), before, " runs")
	})
}

func (s *site) enginePort() (port int) {
	s.Helper()
	var saved struct{ Ports map[string]int }
	raw, err := os.ReadFile(filepath.Join(s.state, "deployments.json"))
	if err == nil {
		err = json.Unmarshal(raw, &saved)
	}
	if err != nil || len(saved.Ports) != 1 {
		s.Fatal(saved, err)
	}
	for _, port = range saved.Ports {
	}
	return port
}

func TestDeployment_AKilledServerIsStartedAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.deploy()
	before := s.engine1()
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.Eventually("a request is served", func() error {
		got, err := s.ask("/", question)
		if err == nil && got.status != http.StatusOK && !strings.Contains(got.body, "server_failed") {
			t.Errorf("after the end is noticed, a request gets %d %s, want it to wait", got.status, got.body)
		}
		return errors.Join(err, because(got.status == http.StatusOK, got.body))
	})
	if after := s.engine1(); after == 0 || after == before {
		t.Errorf("process %d serves, want another one than %d", after, before)
	}
}

func TestDeployment_AMistakeNamesTheFieldAndTheRestServes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.deploy(with("mistake"), with("collision"), with("absent"))
	s.served("/")
	for _, text := range []string{
		"spec.variables.max_num_seq: is no argument of this engine, whose schema forbids others; write max-num-seqs",
		"spec.variables.kv-cache-tokens: minimum: got 0, want 1; correct the value: the engine's schema has the rule",
		"ModelDeployment default/taken metadata.name: there is another InferencePool default/taken, which stays",
		"the program no-such-model-server is not on PATH; install it with: make model-server",
	} {
		s.reports(text)
	}
}

func TestDeployment_ARequestForAnotherTaskGetsThePath(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.deploy(with("embeds"))
	for host, model := range map[string]string{"": "beside", "embeds.example": "alone"} {
		want := "no route for model " + model + " at this path: it serves text-embedding at /v1/embeddings"
		s.Eventually("the answer names the task and the path", func() error {
			req, err := request(s.Context(), s.url("/"), strings.Replace(question, "llama", model, 1))
			if err != nil {
				return err
			}
			req.Host = host
			got, err := do(http.DefaultClient, req)
			found := got.status == http.StatusNotFound && strings.Contains(got.body, want)
			return errors.Join(err, because(found, got.body))
		})
	}
}

var curl = regexp.MustCompile(`(?m)^  (curl .*)$`)

func TestRun_StartsAModelWithoutFiles(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	home := "XDG_STATE_HOME=" + s.state
	s.env = []string{home}
	penstock := func(args ...string) (string, error) {
		cmd := exec.CommandContext(context.Background(), binary, args...)
		cmd.Env = append(os.Environ(), home)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	s.Cleanup(func() {
		if out, err := penstock("down"); err != nil {
			t.Errorf("penstock down: %v\n%s", err, out)
		}
	})
	asks := func(model, log string) {
		t.Helper()
		var line []string
		s.Eventually("penstock run prints a request", func() error {
			text, err := os.ReadFile(log)
			line = curl.FindStringSubmatch(string(text))
			return errors.Join(err, because(line != nil, string(text)))
		})
		s.Eventually("the printed request is answered", func() error {
			out, err := exec.CommandContext(t.Context(), "sh", "-c", line[1]).CombinedOutput()
			return errors.Join(err, because(strings.Contains(string(out), model+"-0 answers"), string(out)))
		})
	}
	first, log := s.start("run", "run", "sim/qwen")
	asks("qwen", log)
	second, more := s.start("another", "run", "sim/org/Other-Model", "--name", "other")
	asks("other", more)
	if out, err := penstock("logs", "other"); err != nil || !strings.Contains(out, "serves org/Other-Model") {
		t.Errorf("penstock logs: got %v\n%s\nwant that it serves org/Other-Model", err, out)
	}
	dirs, err := filepath.Glob(filepath.Join(s.state, "penstock", "*", "engines"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("folders of engines: got %v, %v, want 1", dirs, err)
	}
	pids := engines(t, filepath.Dir(dirs[0]))
	if len(pids) != 2 {
		t.Errorf("model servers: %v, want two", pids)
	}
	second.Signal(syscall.SIGINT)
	<-second.Ended()
	if out, err := penstock("run", "sym/qwen"); err == nil || !strings.Contains(out, "write sim/qwen") {
		t.Errorf("a misspelled engine: %v %s, want the nearest", err, out)
	}
	if out, err := penstock("down"); err != nil {
		t.Errorf("penstock down: %v\n%s", err, out)
	}
	s.Eventually("penstock down ends penstock run", func() error {
		select {
		case <-first.Ended():
			return nil
		default:
			return errors.New("it runs")
		}
	})
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("the server %d after penstock down: got %v, want no such process", pid, err)
		}
	}
}

func TestRun_TheSecondPrintsWhatIsWrongWithItsModel(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.env = []string{"XDG_STATE_HOME=" + s.state}
	prints := func(log, text string) {
		t.Helper()
		s.Eventually("penstock run prints "+text, func() error {
			got, err := os.ReadFile(log)
			return errors.Join(err, because(strings.Contains(string(got), text), string(got)))
		})
	}
	first, log := s.start("run", "run", "sim/qwen")
	prints(log, "default/qwen is Running")
	folder := filepath.Join(s.state, "penstock", "run")
	before, err := os.ReadFile(filepath.Join(folder, "qwen.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"sim/two --replicas -1", "--replicas: must be at least 0, is -1"},
		{"sim/two --name ../two", `--name: is not a valid name: "../two"`},
		{"sim/qwen --name two", "spec.model.servedName: ModelDeployment default/qwen serves qwen at the same Gateway"},
		{"sim/qwen --replicas -1", "--replicas: must be at least 0, is -1"},
	} {
		cmd := exec.CommandContext(t.Context(), binary, append([]string{"run"}, strings.Fields(c.args)...)...)
		cmd.Env = append(os.Environ(), s.env...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), c.want) {
			t.Errorf("penstock run %s: got %v\n%s\nwant status 1 and %s", c.args, err, out, c.want)
		}
	}
	after, err := os.ReadFile(filepath.Join(folder, "qwen.yaml"))
	files, _ := filepath.Glob(filepath.Join(folder, "*"))
	if string(after) != string(before) || len(files) != 2 {
		t.Errorf("afterwards: got %v, %v and\n%s\nwant gateway.yaml and\n%s", files, err, after, before)
	}
	second, log := s.start("another", "run", "sglang/two")
	prints(log, "default/two spec.engine.name: the program sglang is not on PATH")
	second.Signal(syscall.SIGINT)
	<-second.Ended()
	first.Signal(syscall.SIGINT)
	<-first.Ended()
}

// llamaServer accepts the flags that Penstock passes to llama.cpp's server, and rejects others.
const llamaServer = `#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in
  --host) host=$2; shift 2;; --port) port=$2; shift 2;; --model) file=$2; shift 2;; --alias) alias=$2; shift 2;;
  --ctx-size) shift 2;; --metrics) shift;;
  *) echo "error: invalid argument: $1" >&2; exit 1;;
  esac
done
[ -f "$file" ] || { echo "error: failed to open $file" >&2; exit 1; }
exec PENSTOCK sim --listen "$host:$port" --model "$alias" --name gguf
`

func TestRun_AFileOfAModelNeedsLlamaServer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.env = []string{"XDG_STATE_HOME=" + s.state, "PATH=" + s.Files + ":/usr/bin:/bin"}
	model := filepath.Join(s.Files, "Tiny Model.gguf")
	if err := os.WriteFile(model, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Cleanup(func() {
		cmd := exec.CommandContext(context.Background(), binary, "down")
		cmd.Env = append(os.Environ(), s.env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("penstock down: %v\n%s", err, out)
		}
	})
	prints := func(log, text string) {
		t.Helper()
		s.Eventually("penstock run prints "+text, func() error {
			got, err := os.ReadFile(log)
			return errors.Join(err, because(strings.Contains(string(got), text), string(got)))
		})
	}
	run, log := s.start("absent", "run", "file:"+model)
	prints(log, "the program llama-server is not on PATH; install it with: penstock engines install llama-cpp")
	run.Signal(syscall.SIGINT)
	<-run.Ended()
	program := strings.ReplaceAll(llamaServer, "PENSTOCK", binary)
	if err := os.WriteFile(filepath.Join(s.Files, "llama-server"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	run, log = s.start("run", "run", "file:"+model, "--set", "ctx_size=512")
	prints(log, `"model":"Tiny Model"`)
	other := filepath.Join(s.Files, "other.gguf")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, more := s.start("wrong", "run", "file:"+other, "--name", "wrong", "--set", "no-such-argument=1")
	prints(more, "ModelDeployment default/wrong is Failed")
	prints(more, "error: invalid argument: --no-such-argument")
	run.Signal(syscall.SIGINT)
	<-run.Ended()
}
