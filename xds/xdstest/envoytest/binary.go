package envoytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/penstock-project/penstock/xds/xdstest/freeport"
)

// Binary returns the path of Envoy: $ENVOY, .tools/bin/envoy in this directory or above, or envoy
// on the PATH.
func Binary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("ENVOY"); path != "" {
		return path
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatalf("envoytest: %v", err)
	}
	for {
		path := filepath.Join(dir, ".tools", "bin", "envoy")
		if _, err := os.Stat(path); err == nil {
			return path
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	path, err := exec.LookPath("envoy")
	if err != nil {
		t.Fatal("envoytest: no Envoy: set $ENVOY, or install one with `make envoy`")
	}
	return path
}

// FreePort returns a TCP port of 127.0.0.1 without a listener.
func FreePort(t testing.TB) uint32 {
	t.Helper()
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	return uint32(port)
}

// Validate returns Envoy's output if it rejects the bootstrap.
func Validate(t testing.TB, bootstrap []byte) (problem string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bootstrap.yaml")
	if err := os.WriteFile(path, bootstrap, 0o600); err != nil {
		t.Fatalf("envoytest: %v", err)
	}
	out, err := exec.Command(Binary(t), "--mode", "validate", "--disable-hot-restart", "-l", "error", "-c", path).
		CombinedOutput()
	if err != nil {
		return string(out) + err.Error()
	}
	return ""
}
