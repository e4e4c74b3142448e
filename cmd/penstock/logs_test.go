package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/discovery/engine/processes"
)

// Without --replica, the logs of running servers are printed. These may not include number 0.
func TestLogs_WithoutANumberTheServersThatRunAreShown(t *testing.T) {
	state := t.TempDir()
	dir := app.Engines(state)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	record := func(n, pid int) {
		t.Helper()
		name := fmt.Sprintf("default/qwen/%d", n)
		log := processes.LogFile(dir, name)
		raw := fmt.Sprintf(`{"name": %q, "token": "t", "identity": "i", "pid": %d}`, name, pid)
		if pid == 0 {
			raw = fmt.Sprintf(`{"name": %q}`, name)
		}
		for path, text := range map[string]string{strings.TrimSuffix(log, ".log") + ".json": raw,
			log: fmt.Sprintf("server %d begins\nserver %d serves\n", n, n)} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "broken.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	logs := func(args ...string) string {
		t.Helper()
		var out, complaints strings.Builder
		if err := runCommand(append([]string{"logs", "qwen", "--state", state}, args...), &out,
			&complaints); err != nil {
			t.Fatal(err, complaints.String())
		}
		return out.String()
	}
	record(0, 0)
	record(1, 4711)
	if got, want := logs(), "server 1 begins\nserver 1 serves\n"; got != want {
		t.Errorf("one server runs: got %q, want %q", got, want)
	}
	if got, want := logs("--replica", "0"), "server 0 begins\nserver 0 serves\n"; got != want {
		t.Errorf("--replica 0: got %q, want %q", got, want)
	}
	record(12, 4712)
	want := "1 | server 1 begins\n1 | server 1 serves\n12 | server 12 begins\n12 | server 12 serves\n"
	if got := logs(); got != want {
		t.Errorf("two servers run: got %q, want %q", got, want)
	}
	record(1, 0)
	record(12, 0)
	if got := logs(); !strings.HasPrefix(got, "0 | server 0 begins\n") || !strings.HasSuffix(got,
		"12 | server 12 serves\n") {
		t.Errorf("no server runs: got %q, want the logs of all", got)
	}
}
