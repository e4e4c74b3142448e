package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func install(t *testing.T, served, prefix string) (string, error) {
	t.Helper()
	_, noCurl := exec.LookPath("curl")
	if _, err := exec.LookPath("wget"); err != nil && noCurl != nil {
		t.Skipf("install.sh runs one of these: %v; %v", noCurl, err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(served)))
	defer server.Close()
	cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(served, "install.sh"))
	cmd.Env = append(os.Environ(), "PENSTOCK_URL="+server.URL, "PREFIX="+prefix, "no_proxy=127.0.0.1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestInstall_ProgramRunsWithItsEnvoyBesideIt(t *testing.T) {
	d, prefix := prepared(t), t.TempDir()
	released(t, d)
	for range 2 { // the second round replaces the first installation
		if out, err := install(t, d.out, prefix); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(prefix, "bin/penstock")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "it runs") {
		t.Errorf("got %v: %s, want it runs", err, out)
	}
	place, err := filepath.EvalSymlinks(filepath.Join(prefix, "bin/penstock"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(place), "envoy")); (err == nil) != (runtime.GOOS == "linux") {
		t.Errorf("Envoy beside %s: got %v, want it on Linux alone", place, err)
	}
	if left, _ := filepath.Glob(filepath.Join(prefix, "share/penstock/.install*")); len(left) > 0 {
		t.Errorf("%v is left, want none", left)
	}
}

func TestInstall_AnotherChecksumInstallsNothing(t *testing.T) {
	d, prefix := prepared(t), t.TempDir()
	released(t, d)
	name := "penstock-0.1.0-" + runtime.GOOS + "-" + runtime.GOARCH + ".tar.gz"
	overwrite(t, filepath.Join(d.out, name), "something else")
	out, err := install(t, d.out, prefix)
	if err == nil || !strings.Contains(out, "checksum of "+name+" differs") {
		t.Errorf("got %v\n%s\nwant that the checksum of %s differs", err, out, name)
	}
	if _, err := os.Lstat(filepath.Join(prefix, "bin/penstock")); err == nil {
		t.Error("a program is installed")
	}
}

// If ln or mv fails, install.sh changes no installed file, and leaves no temporary folder. It also
// removes the temporary folder of a killed installation. A relative PREFIX is relative to the
// working folder.
func TestInstall_FailureLeavesWhatWasThere(t *testing.T) {
	d, prefix := prepared(t), t.TempDir()
	released(t, d)
	t.Chdir(prefix)
	if out, err := install(t, d.out, "relative"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program := filepath.Join(prefix, "relative/bin/penstock")
	if _, err := os.Stat(program); err != nil {
		t.Fatal(err)
	}
	killed := filepath.Join(prefix, "relative/share/penstock/.install.killed")
	old := time.Now().Add(-24 * time.Hour)
	if err := errors.Join(os.Mkdir(killed, 0o700), os.Chtimes(killed, old, old)); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"ln": "#!/bin/sh\nexit 1\n", // ln fails after install.sh has moved the files
		"mv": "#!/bin/sh\ncase \"$1\" in penstock-*) exit 1;; esac\nexec /bin/mv \"$@\"\n",
	} {
		bin := t.TempDir()
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
		if out, err := install(t, d.out, "relative"); err == nil {
			t.Fatalf("%s: installed, want an error:\n%s", name, out)
		}
		if out, err := exec.CommandContext(t.Context(), program).CombinedOutput(); err != nil {
			t.Errorf("%s: what was installed no longer runs: %v: %s", name, err, out)
		}
		if left, _ := filepath.Glob(filepath.Join(prefix, "relative/share/penstock/.*")); len(left) > 0 {
			t.Errorf("%s: %v is left, want none", name, left)
		}
	}
}

// install.sh runs cosign in another folder, so it passes a key file's absolute path. It passes a
// key's URI unchanged.
func TestInstall_KeyIsThatOfTheUsersFolder(t *testing.T) {
	d, here := prepared(t), t.TempDir()
	released(t, d)
	overwrite(t, filepath.Join(d.out, sumsFile+".sig"), "signature")
	overwrite(t, filepath.Join(here, "key.pem"), "key")
	cosign := "#!/bin/sh\ncase $3 in */key.pem) [ -f \"$3\" ];; *) [ \"$3\" = k8s://a/b ];; esac\n"
	if err := os.WriteFile(filepath.Join(here, "cosign"), []byte(cosign), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", here+":"+os.Getenv("PATH"))
	t.Chdir(here)
	for _, key := range []string{"key.pem", filepath.Join(here, "key.pem"), "k8s://a/b"} {
		t.Setenv("PENSTOCK_KEY", key)
		if out, err := install(t, d.out, filepath.Join(here, "prefix")); err != nil {
			t.Errorf("%s: %v\n%s", key, err, out)
		}
	}
}

func inPath(t *testing.T, d *dist, path string, vars ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(d.out, "install.sh"))
	cmd.Env = append([]string{"PATH=" + path, "TMPDIR=" + t.TempDir()}, vars...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// commands writes scripts to a folder, and returns a PATH that begins with the folder.
func commands(t *testing.T, scripts map[string]string) string {
	t.Helper()
	bin := t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return bin + ":/usr/bin:/bin"
}

// install.sh verifies the signature only if cosign is installed. PENSTOCK_URL is a folder, and
// PENSTOCK_VERSION has the form of a tag.
func TestInstall_SignatureIsVerifiedWhereCosignIsThere(t *testing.T) {
	d := prepared(t)
	released(t, d)
	bundle := filepath.Join(d.out, sumsFile+".sigstore.json")
	log := filepath.Join(t.TempDir(), "log")
	cosign := map[string]string{"cosign": "echo \"$@\" >>" + log + "\ngrep -q valid SHA256SUMS.sigstore.json\n"}
	for _, c := range []struct{ name, bundle, path, want string }{
		{"valid", "valid", commands(t, cosign), "installed "},
		{"not valid", "other", commands(t, cosign), "nothing is installed"},
		{"no signature in a folder of one's own", "", commands(t, cosign), "the release is not signed"},
		{"no cosign", "other", commands(t, nil), "the signature is not verified"},
	} {
		if err := os.Remove(bundle); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if c.bundle != "" {
			overwrite(t, bundle, c.bundle)
		}
		prefix := filepath.Join(t.TempDir(), "prefix")
		out, err := inPath(t, d, c.path, "PENSTOCK_URL="+d.out, "PENSTOCK_VERSION=v0.1.0", "PREFIX="+prefix)
		if (err == nil) != (c.name != "not valid") || !strings.Contains(out, c.want) {
			t.Errorf("%s: got %v, want %q in\n%s", c.name, err, c.want, out)
		}
		if _, there := os.Stat(prefix); (there == nil) != (err == nil) {
			t.Errorf("%s: PREFIX after %v: %v, want it after a success alone", c.name, err, there)
		}
	}
	text, _ := os.ReadFile(log)
	for _, want := range []string{
		"verify-blob-attestation ", " https://token.actions.githubusercontent.com ",
		"/penstock-project/penstock/.github/workflows/release.yml@refs/tags/v0.1.0 SHA256SUMS\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("cosign is run as\n%s\nwant %q", text, want)
		}
	}
}

// Here, curl is a script that serves a published release without a signature.
func TestInstall_MistakesAreErrorsAndLeaveNothing(t *testing.T) {
	d := prepared(t)
	released(t, d)
	curl := "for url; do :; done\ncp " + d.out + "/${url##*/} ${url##*/}\n"
	for _, c := range []struct {
		want string
		path string
		vars []string
	}{
		{"SHA256SUMS.sigstore.json, the signature, was not fetched",
			commands(t, map[string]string{"curl": curl, "cosign": "exit 0\n"}), nil},
		{"PENSTOCK_KEY needs cosign", commands(t, map[string]string{"curl": "echo fetched\n"}),
			[]string{"PENSTOCK_KEY=k.pub"}},
		{"HOME is not set: name the folder to install into in PREFIX",
			commands(t, map[string]string{"curl": "echo fetched\n"}), []string{"PREFIX="}},
		{"SHA256SUMS was not fetched", commands(t, map[string]string{"curl": "exit 22\n"}), nil},
	} {
		prefix := filepath.Join(t.TempDir(), "prefix")
		out, err := inPath(t, d, c.path, append([]string{"PREFIX=" + prefix}, c.vars...)...)
		if err == nil || !strings.Contains(out, c.want) || strings.Contains(out, "fetched\n") {
			t.Errorf("got %v, want %q, and nothing fetched before, in\n%s", err, c.want, out)
		}
		if _, err := os.Stat(prefix); err == nil {
			t.Errorf("%s: PREFIX is there, want nothing", c.want)
		}
	}
}
