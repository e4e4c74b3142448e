package supervisor

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/penstock-project/penstock/xds/admission/ports"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

type syncedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *syncedText) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *syncedText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func TestKeep_EnvoyStaysUnlessItWouldBeStartedDifferently(t *testing.T) {
	runtime.LockOSThread() // the kernel ends children with their thread
	defer runtime.UnlockOSThread()
	dir := t.TempDir()
	script := filepath.Join(dir, "envoy")
	const text = "#!/bin/sh\ntrap 'exit 0' TERM\nwhile :; do echo 'warning main turns' >&2; sleep 0.05; done\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	var out *syncedText
	now := make(chan struct{})
	close(now)
	envoy := func(change func(*EnvoyConfig)) *Envoy {
		t.Helper()
		out = &syncedText{} // the earlier Envoy may still log
		cfg := EnvoyConfig{Envoy: script, version: "1.40.0", Gateway: "default/gw", Bootstrap: []byte("{}"),
			Dir: filepath.Join(dir, "d"), Now: now, Log: slog.New(slog.NewTextHandler(out, nil))}
		change(&cfg)
		e, err := NewEnvoy(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for _, c := range []struct {
		want   string
		change func(*EnvoyConfig)
	}{
		{"", func(*EnvoyConfig) {}},
		{"the new penstock starts Envoy 1.41.0", func(c *EnvoyConfig) { c.version = "1.41.0" }},
		{"Envoy with another bootstrap", func(c *EnvoyConfig) { c.Bootstrap = []byte("{node: {}}") }},
		{"Envoy with other arguments", func(c *EnvoyConfig) { c.Args = []string{"--concurrency", "2"} }},
	} {
		earlier := envoy(func(*EnvoyConfig) {})
		child, err := earlier.start(nil)
		if err != nil {
			t.Fatal(err)
		}
		kept := earlier.identity(child.pid)
		if kept.Stderr, err = ports.Duplicate(child.stderr); err != nil {
			t.Fatal(err)
		}
		if err := child.stderr.Close(); err != nil {
			t.Fatal(err)
		}
		next := envoy(func(cfg *EnvoyConfig) { c.change(cfg); cfg.kept = &kept })
		adopted := next.adopt()
		switch {
		case c.want == "" && (adopted == nil || adopted.pid != child.pid):
			t.Errorf("got %+v, want process %d adopted", adopted, child.pid)
		case c.want == "":
			poll.Until(t, "its log is read", func() bool { return strings.Contains(out.String(), "turns") })
			next.stop(adopted)
		case adopted != nil || !strings.Contains(out.String(), c.want):
			t.Errorf("got %+v and the log %s, want %q", adopted, out, c.want)
		}
		if err := syscall.Kill(child.pid, 0); !errors.Is(err, syscall.ESRCH) && !zombie(child.pid) {
			t.Errorf("process %d: got %v, want it ended", child.pid, err)
		}
	}
}
