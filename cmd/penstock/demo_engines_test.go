package main

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The demo's model servers are separate processes, of which none may remain.
func TestDemo_EnginesPassAndCtrlCEndsThem(t *testing.T) {
	t.Parallel()
	d := startDemo(t, "--engines", "--keep")
	d.out.expect(t, "Ctrl-C ends it")
	if err := d.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	d.ended(t, 5)
	d.out.expect(t, "requests, 0 failed")
	files, err := filepath.Glob("/proc/[0-9]*/environ") // without /proc, outside Linux, the list is empty
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if env, err := os.ReadFile(file); err == nil && bytes.Contains(env, []byte("TMPDIR="+d.temp)) {
			t.Errorf("%s: got a process of the demo after its end, want none", file)
		}
	}
}
