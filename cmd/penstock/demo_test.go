package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-project/penstock/cmd/penstock/internal/demo"
	"github.com/penstock-project/penstock/xds/supervisor"
)

type demonstration struct {
	cmd       *exec.Cmd
	temp      string
	out, errs *transcript
}

func startDemo(t *testing.T, args ...string) *demonstration {
	t.Helper()
	envoy, err := supervisor.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d := &demonstration{cmd: exec.Command("penstock", append([]string{"demo"}, args...)...), temp: shortTemp(t),
		out: newTranscript(), errs: newTranscript()}
	d.cmd.Env = append(os.Environ(), "ENVOY="+envoy.Path, "TMPDIR="+d.temp)
	d.cmd.Stdout, d.cmd.Stderr = d.out, d.errs
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.cmd.Process.Kill() })
	return d
}

// shortTemp makes a temporary folder with a short path, because a Unix socket's path is limited to
// about 100 bytes.
func shortTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

var demoGateway = regexp.MustCompile(`GW=(\S+)`)

// ended expects that all steps have passed and no files remain.
func (d *demonstration) ended(t *testing.T, steps int) {
	t.Helper()
	timer := time.AfterFunc(2*time.Minute, func() { _ = d.cmd.Process.Kill() })
	defer timer.Stop()
	if err := d.cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s%s", err, d.out, d.errs)
	}
	text := d.out.String()
	if !strings.Contains(text, fmt.Sprintf("All %d steps went as promised", steps)) ||
		strings.Count(text, "✓") != steps+1 || strings.Contains(text, "✗") {
		t.Errorf("got\n%s\nwant all %d steps as promised", text, steps)
	}
	if strings.Contains(text, "\x1b") {
		t.Error("a file gets colours")
	}
	for _, m := range demoGateway.FindAllStringSubmatch(text, 1) {
		if _, err := chat(t.Context(), m[1]); err == nil {
			t.Errorf("%s still answers, want an error", m[1])
		}
	}
	expectEmpty(t, d.temp)
}

func expectEmpty(t *testing.T, dir string) {
	t.Helper()
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v, want none", left, err)
	}
}

func TestDemo_TwoSideBySidePassAndLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	once, kept := startDemo(t), startDemo(t, "--keep")
	once.ended(t, 11)
	kept.out.expect(t, "Ctrl-C ends it")
	url := demoGateway.FindStringSubmatch(kept.out.String())[1]
	for _, prefix := range []string{"", "/endpoint-mode", "/parent-mode", "/split", "/spill"} {
		answers(t, url+prefix, http.StatusOK)
	}
	files, err := filepath.Glob(filepath.Join(kept.temp, "*", "here", "split.yaml"))
	if err != nil || len(files) != 1 {
		t.Fatalf("expected one split.yaml, got %v %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], bytes.Replace(text, []byte("weight: 50"), []byte("weight: -1"), 1),
		0o600); err != nil {
		t.Fatal(err)
	}
	kept.out.expect(t, "here: error: ")
	answers(t, url+"/split", http.StatusOK)
	if err := kept.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	kept.ended(t, 11)
}

func TestDemo_ClusterSetPasses(t *testing.T) {
	t.Parallel()
	startDemo(t, "--cluster-set").ended(t, 8)
}

// The demo's penstock has its picker at another port, so the step that uses the picker must fail.
func TestDemo_UnreachableClusterFailsItsStep(t *testing.T) {
	envoy, err := supervisor.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	binary, temp := filepath.Join(t.TempDir(), "elsewhere"), shortTemp(t)
	t.Setenv("TMPDIR", temp)
	script := `#!/bin/sh
for arg; do
  shift
  [ "$before" = --picker ] && arg=127.0.0.1:0
  set -- "$@" "$arg"
  before=$arg
done
exec penstock "$@"
`
	if err := os.WriteFile(binary, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = demo.Run(t.Context(),
		demo.Config{Penstock: binary, Typed: "penstock", Env: []string{"ENVOY=" + envoy.Path}, Out: &out, Ask: get})
	if !errors.Is(err, demo.ErrFailed) {
		t.Errorf("expected that the demo fails, got %v", err)
	}
	if text := out.String(); !strings.Contains(text,
		"✗ expected that a new route answers 200 or 401 from its first request on, got 503") ||
		strings.Contains(text, "All 11 steps") {
		t.Errorf("the output lacks what was expected and what was seen:\n%s", text)
	}
	expectEmpty(t, temp)
}
