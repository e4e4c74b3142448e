package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDown_ReportsAStateFolderInWhichNothingWasStarted(t *testing.T) {
	dir := t.TempDir()
	for name, prepare := range map[string]func(state string) error{
		"absent": func(string) error { return nil },
		"written after it was removed": func(state string) error {
			return os.MkdirAll(filepath.Join(state, "engines"), 0o700)
		},
	} {
		state := filepath.Join(dir, name)
		if err := prepare(state); err != nil {
			t.Fatal(err)
		}
		cmd := newDown()
		cmd.SetArgs([]string{"-f", dir, "--state", state})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		want := "no process has started servers with the state folder " + state
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
		if _, err := os.Stat(filepath.Join(state, "engines", "lock")); err == nil {
			t.Errorf("%s: the command makes the folder look used", name)
		}
	}
}
