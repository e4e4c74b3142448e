package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Without a built penstock, build.sh prints a notice before it calls go. It exits with go build's
// status.
func TestBuild_FirstOneNamesWhatItCompiles(t *testing.T) {
	script, err := filepath.Abs(filepath.Join(root, "conformance", "tools", "build.sh"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	const program = `#!/bin/sh
case $1 in
list) seq 150; echo "go list" >&3 ;;
build) seq 150 >&2; echo "a.go:1: no such package" >&2; exit 3 ;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", `exec "$0" "$@" 3>&2 2>&1`, script, "-o", "bin/",
		"./cmd/penstock", "./cmd/penstock-external")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("got %v, want exit status 3", err)
	}
	const want = `compiling penstock penstock-external with all modules: some minutes the first time
go list
compiling packages: 100 of at most 150
a.go:1: no such package
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}
