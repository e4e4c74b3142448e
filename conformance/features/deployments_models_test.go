package features

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/penstock-project/penstock/discovery/engine/fetch/registrytest"
)

// hub is a private registry with a model in two quantizations.
func (s *site) hub() *registrytest.Registry {
	r := registrytest.New("org/model",
		registrytest.File{Name: "model-Q4_K_M.gguf", Content: bytes.Repeat([]byte("weights "), 1<<18), LFS: true},
		registrytest.File{Name: "model-Q8_0.gguf", Content: make([]byte, 1<<21), LFS: true},
		registrytest.File{Name: "README.md", Content: []byte("a model")})
	s.Cleanup(r.Close)
	r.Require("hf_canary")
	return r
}

func (s *site) modelServer() string {
	s.Helper()
	path := filepath.Join(s.TempDir(), "llama-server")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(llamaServer, "PENSTOCK", binary)), 0o700); err != nil {
		s.Fatal(err)
	}
	return filepath.Dir(path)
}

func TestModels_ADeploymentDownloadsItsModelOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.hub()
	r.Hang()
	cache := filepath.Join(s.state, "models")
	s.env = []string{"HF_HUB_CACHE=" + cache, "PATH=" + s.modelServer() + ":" + os.Getenv("PATH")}
	edits := []edit{swap("REGISTRY", r.URL)}
	s.deployFixture("deployments_models.yaml", append(edits, with("absent"))...)
	s.reports("ModelDownloading")
	s.reports("the registry has no model org/none with revision main")
	r.Resume()
	s.answers("/", 200)
	s.Eventually("the status of the registry has that it answers", func() error {
		got, err := s.command("status", "-o", "json")
		return errors.Join(err, because(strings.Contains(got, "Reachable"), got))
	})
	if _, err := os.Stat(filepath.Join(cache, "models--org--model", "snapshots", registrytest.Commit,
		"model-Q4_K_M.gguf")); err != nil {
		t.Error(err)
	}
	for _, q := range r.Requests() {
		if strings.HasPrefix(q.Path, "/lfs/") && q.Authorization != "" {
			t.Errorf("the target of a redirect gets %s, want no credential", q.Authorization)
		}
		if strings.Contains(q.Path, "Q8_0") {
			t.Errorf("got a request for %s, want Q4_K_M alone", q.Path)
		}
	}
	// The next process adopts the running server, so it needs no registry.
	before := s.engine1()
	r.Status(503)
	requests := len(r.Requests())
	s.kill()
	s.up("deployments_models.yaml", edits...)
	s.answers("/", 200)
	if after := s.engine1(); after != before {
		t.Errorf("process %d serves, want %d", after, before)
	}
	if n := len(r.Requests()); n != requests {
		t.Errorf("requests to the registry for a model that is there: got %d, want 0", n-requests)
	}
	for _, text := range []string{s.status(), s.output()} {
		if strings.Contains(text, "hf_canary") {
			t.Errorf("got\n%s\nwant it without the credential", text)
		}
	}
	out, _ := exec.CommandContext(t.Context(), "grep", "-rl", "hf_canary", cache, filepath.Join(s.state, "engines"),
		filepath.Join(s.state, "deployments.json")).Output()
	if len(out) > 0 {
		t.Errorf("files with the credential: got %s, want none", out)
	}
}

func TestModels_RunPullModelsAndRm(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.hub()
	s.env = []string{"XDG_STATE_HOME=" + s.state, "PATH=" + s.modelServer() + ":/usr/bin:/bin",
		"HF_ENDPOINT=" + r.URL, "HF_TOKEN=hf_canary", "HF_HUB_CACHE=" + filepath.Join(s.state, "models")}
	penstock := func(args ...string) (string, error) {
		cmd := exec.CommandContext(context.Background(), binary, args...)
		cmd.Env = append(os.Environ(), s.env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	s.Cleanup(func() {
		if out, err := penstock("down"); err != nil {
			t.Errorf("penstock down: %v\n%s", err, out)
		}
	})
	out, err := penstock("pull", "hf:org/model:Q4_K_M")
	file := filepath.Join("models--org--model", "snapshots", registrytest.Commit, "model-Q4_K_M.gguf")
	if err != nil || !strings.Contains(out, "org/model: 100 %, 2.0 MiB of 2.0 MiB") ||
		!strings.HasSuffix(out, file+"\n") {
		t.Errorf("penstock pull: got %v\n%s\nwant 100 %%, 2.0 MiB of 2.0 MiB, and %s", err, out, file)
	}
	if out, err := penstock("pull", "hf:org/model:Q5"); err == nil ||
		!strings.Contains(out, `has no file "Q5": write one of model-Q4_K_M.gguf, model-Q8_0.gguf`) {
		t.Errorf("another quantization: got %v %s, want an error with the two files that there are", err, out)
	}
	if out, err := penstock("models"); err != nil || !strings.Contains(out, "hf:org/model  2.0 MiB  main") {
		t.Errorf("penstock models: got %v\n%s\nwant hf:org/model with 2.0 MiB", err, out)
	}
	run, log := s.start("run", "run", "hf:org/model")
	var line []string
	s.Eventually("penstock run prints a request", func() error {
		text, err := os.ReadFile(log)
		line = curl.FindStringSubmatch(string(text))
		return errors.Join(err, because(line != nil, string(text)))
	})
	s.Eventually("the printed request is answered", func() error {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", line[1]).CombinedOutput()
		return errors.Join(err, because(strings.Contains(string(out), "gguf answers"), string(out)))
	})
	run.Signal(syscall.SIGINT)
	<-run.Ended()
	if out, err := penstock("rm", "hf:org/model"); err != nil ||
		!strings.Contains(out, "removed 2.0 MiB of hf:org/model") {
		t.Errorf("penstock rm: got %v\n%s\nwant 2.0 MiB removed", err, out)
	}
	if out, err := penstock("models"); err != nil || strings.Contains(out, "org/model") {
		t.Errorf("penstock models after penstock rm: got %v\n%s\nwant no org/model", err, out)
	}
}
