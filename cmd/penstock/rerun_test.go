package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRerun_OnlyATestThatPassesAtSecondIsForgiven runs conformance/tools/test.sh, which repeats a
// failed test with RERUN=1.
func TestRerun_OnlyATestThatPassesAtSecondIsForgiven(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs("../../conformance/tools/test.sh")
	if err != nil {
		t.Fatal(err)
	}
	const once = `if _, err := os.Stat("failed"); err != nil { os.WriteFile("failed", nil, 0o600); t.Run("sub", func(t *testing.T) { t.Fatal() }) }`
	for name, c := range map[string]struct {
		rerun, body string
		passes      bool
		prints      string
	}{
		"it passes at second":            {"RERUN=1", once, true, "UNSTABLE"},
		"it passes at second, not asked": {"RERUN=", once, false, "FAIL"},
		"it fails twice":                 {"RERUN=1", `_ = os.Stat; t.Fatal()`, false, "FAIL"},
		"it panics":                      {"RERUN=1", `_ = os.Stat; panic("here")`, false, "FAIL"},
		"it does not compile":            {"RERUN=1", `unknown()`, false, "FAIL"},
		"it passes":                      {"RERUN=1", `_ = os.Stat`, true, "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, text := range map[string]string{
				"go.mod": "module example\n\ngo 1.24\n",
				"it_test.go": "package example\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestIt(t " +
					"*testing.T) { " + c.body + " }\n",
			} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			command := exec.Command(script, "-vet=off", "./...")
			command.Dir = dir
			command.Env = append(os.Environ(), c.rerun, "GOFLAGS=-mod=mod", "GOWORK=off")
			out, err := command.CombinedOutput()
			if (err == nil) != c.passes || !strings.Contains(string(out), c.prints) {
				t.Errorf("passes: %v, want %v with %q; output:\n%s", err == nil, c.passes, c.prints, out)
			}
		})
	}
}

// TestRerun_NoResultComesFromTheTestCache changes a program that a test executes, which Go's test
// cache does not track.
func TestRerun_NoResultComesFromTheTestCache(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs("../../conformance/tools/test.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir, program := t.TempDir(), filepath.Join(t.TempDir(), "program")
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, "go.mod"), "module example\n\ngo 1.24\n", 0o600)
	write(filepath.Join(dir, "it_test.go"), `package example

import (
	"os/exec"
	"testing"
)

func TestIt(t *testing.T) {
	if err := exec.Command("`+program+`").Run(); err != nil {
		t.Fatal(err)
	}
}
`, 0o600)
	for _, c := range []struct {
		exits  string
		passes bool
	}{{"0", true}, {"1", false}} {
		write(program, "#!/bin/sh\nexit "+c.exits+"\n", 0o700)
		command := exec.Command(script, "-vet=off", "./...")
		command.Dir = dir
		command.Env = append(os.Environ(), "RERUN=", "GOFLAGS=-mod=mod", "GOWORK=off")
		if out, err := command.CombinedOutput(); (err == nil) != c.passes {
			t.Errorf("with a program that exits with %s the tests pass: %v, want %v; output:\n%s", c.exits, err == nil,
				c.passes, out)
		}
	}
}
