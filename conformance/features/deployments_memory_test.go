package features

import (
	"bytes"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/engine/fetch/registrytest"
	"github.com/penstock-project/penstock/discovery/engine/memory/memorytest"
)

// memoryServer serves a GGUF file. Its first argument is --host.
const memoryServer = `#!/bin/sh
while [ $# -gt 1 ]; do
  case $1 in --host) host=$2;; --port) port=$2;; --alias) alias=$2;; esac
  shift
done
exec PENSTOCK sim --listen "$host:$port" --model "$alias" --name "$alias-0"
`

// sized makes a site with two accelerators of 45 GiB, and a model of 40 GiB with the given context.
func sized(t *testing.T) (s *site, edits func(context string) []edit) {
	s, dir := accelerated(t)
	s.executable(dir, "llama-server", memoryServer)
	file := filepath.Join(dir, "large.gguf")
	if err := memorytest.Write(file, 40<<30); err != nil {
		t.Fatal(err)
	}
	return s, func(context string) []edit { return []edit{swap("GGUF", file), swap("CONTEXT", context)} }
}

func TestMemory_AModelThatCannotFitIsFailedWithTheNumbers(t *testing.T) {
	t.Parallel()
	s, edits := sized(t)
	s.deployFixture("deployments_memory.yaml", append(edits("131072"), with("part"))...)
	const problem = "a server needs 56.0 GiB of accelerator memory, 40.0 GiB for weights and 16.0 GiB for a cache of " +
		"131072 tokens, and device 0 (NVIDIA L40S) has 45.0 GiB"
	s.logged("ModelDeployment default/llama is Failed: " + problem)
	s.reports("spec.resources.gpu: " + problem)
	s.reports("write spec.variables.ctx-size: 40704 at most, or write spec.resources.gpu: 2, or write a smaller " +
		"quantization")
	got, err := s.ask("/", question)
	if err != nil || got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, problem) {
		t.Errorf("a request for it: %d %s %v, want the reason", got.status, got.body, err)
	}
	// A model starts if only some of its layers must be on accelerators.
	if by, err := s.asks("part", "hello", 30*time.Second); err != nil || by != "part-0" {
		t.Errorf("a model in part on the accelerator: got %q %v, want part-0", by, err)
	}
	s.write("deployments_memory.yaml", append(edits("8192"), with("part"))...)
	s.Eventually("llama-0 answers after the context is smaller", func() error {
		by, err := s.asks("llama", "hello", 30*time.Second)
		if err != nil {
			return err
		}
		return because(by == "llama-0", by)
	})
	s.write("deployments_memory.yaml", append(edits("131072"), with("part"))...)
	s.reports("spec.resources.gpu: " + problem)
	if by, err := s.asks("llama", "hello again", 30*time.Second); err != nil || by != "llama-0" {
		t.Errorf("after a change that cannot fit: got %q %v, want llama-0", by, err)
	}
}

func TestMemory_ADownloadReservesNoAccelerator(t *testing.T) {
	t.Parallel()
	s, edits := sized(t)
	r := registrytest.New("org/model", registrytest.File{Name: "model-Q4_K_M.gguf",
		Content: bytes.Repeat([]byte("weights "), 1<<18), LFS: true})
	t.Cleanup(r.Close)
	r.Hang()
	s.env = append(s.env, "HF_HUB_CACHE="+filepath.Join(s.state, "models"))
	s.deployFixture("deployments_memory.yaml", append(edits("8192"), with("downloads"), swap("REGISTRY", r.URL))...)
	s.reports("ModelDownloading")
	if by, err := s.asks("llama", "hello", 30*time.Second); err != nil || by != "llama-0" {
		t.Errorf("a request while another model is downloaded: got %q %v, want llama-0", by, err)
	}
	r.Resume()
	s.reports("it needs 2 devices, and 1 of 2 are free")
}
