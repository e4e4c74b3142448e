//go:build engines

package features

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// llamaServerOnPath puts the real llama-server first in PATH, and returns a GGUF file.
func (s *site) llamaServerOnPath() (gguf string) {
	s.Helper()
	if installed() == "" {
		s.Fatal("ENGINES_DIR is not set: make test-engines sets it")
	}
	tools, err := filepath.Abs(filepath.Join("..", "tools", "engines"))
	if err != nil {
		s.Fatal(err)
	}
	s.env = append(s.env, "PATH="+tools+":"+os.Getenv("PATH"), "ENGINES_DIR="+installed())
	return filepath.Join(installed(), "models", "tiny.gguf")
}

const fewTokens = `{"model": "llama", "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]}`

func TestEngines_LlamaCppIsDeployedAndOutlivesUp(t *testing.T) {
	s := newSite(t)
	gguf := s.llamaServerOnPath()
	s.deployFixture("deployments_gguf.yaml", swap("GGUF", gguf))
	answer := func() {
		t.Helper()
		s.Eventually("the real server answers", func() error {
			got, err := s.ask("/", fewTokens)
			return errors.Join(err, because(got.status == http.StatusOK &&
				field(got.body, "usage", "completion_tokens") == 4.0 && field(got.body, "model") == "llama", got))
		})
	}
	answer()
	if text := s.status(); strings.Contains(text, "declares") || strings.Contains(text, "metrics") {
		t.Errorf("status of a deployment without mistakes: got\n%s\nwant no findings", text)
	}
	before := s.engine1()
	s.kill()
	s.up("deployments_gguf.yaml", swap("GGUF", gguf))
	answer()
	if after := s.engine1(); after != before {
		t.Errorf("process %d serves, want %d, which has its weights loaded", after, before)
	}
}

func TestEngines_LlamaCppServesEachTask(t *testing.T) {
	s := newSite(t)
	gguf := s.llamaServerOnPath()
	s.deployFixture("deployments_gguf.yaml", swap("GGUF", gguf), with("tasks"), with("wrong"))
	asks := func(path, body string, names ...string) {
		t.Helper()
		s.Eventually(path+" is answered", func() error {
			got, err := s.post(s.base()+path, body)
			return errors.Join(err, because(got.status == http.StatusOK && field(got.body, names...) != nil, got))
		})
	}
	asks("/v1/embeddings", `{"model": "embedder", "input": "Hello there"}`, "data")
	asks("/v1/rerank", `{"model": "ranker", "query": "Hello", "documents": ["a", "b c"]}`, "results")
	got, err := s.post(s.base()+"/v1/chat/completions", strings.Replace(fewTokens, "llama", "embedder", 1))
	if err != nil || got.status != http.StatusNotFound {
		t.Errorf("a chat with a model of another task: %d %s %v, want 404", got.status, got.body, err)
	}
	s.reports("error: invalid argument: --no-mmap")
	s.reports("spec.variables.no-mmap: is no argument that the engine's schema declares")
}

func TestEngines_LlamaCppRunsAFile(t *testing.T) {
	s := newSite(t)
	home := "XDG_STATE_HOME=" + s.state
	s.env = []string{home}
	gguf := s.llamaServerOnPath()
	s.Cleanup(func() {
		cmd := exec.CommandContext(context.Background(), binary, "down")
		cmd.Env = append(os.Environ(), home)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("penstock down: %v\n%s", err, out)
		}
	})
	run, log := s.start("run", "run", "file:"+gguf, "--set", "ctx-size=2048", "--set", "n-predict=4")
	var line []string
	s.Eventually("penstock run prints a request", func() error {
		text, err := os.ReadFile(log)
		line = curl.FindStringSubmatch(string(text))
		return errors.Join(err, because(line != nil, string(text)))
	})
	out, err := exec.CommandContext(t.Context(), "sh", "-c", line[1]).CombinedOutput()
	if err != nil || field(string(out), "choices") == nil {
		t.Errorf("the printed request: %v %s, want an answer", err, out)
	}
	run.Signal(syscall.SIGINT)
	<-run.Ended()
}

// An engine's schema must match the parser of the installed version.
func TestEngines_LlamaCppSchemaIsTheParsersOwn(t *testing.T) {
	python := filepath.Join(installed(), "llamacpp", "bin", "python")
	cmd := exec.CommandContext(t.Context(), python, "-B", "../tools/engines/llamacpp_schema.py")
	cmd.Stderr = t.Output()
	got, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	const file = "../../discovery/engine/catalog/schemas/llama-cpp.json"
	if want, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: got %v, and another text than the output of %s, want the same", file, err, cmd)
	}
}
