package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestLog_TextIsBounded(t *testing.T) {
	var out bytes.Buffer
	long := strings.Repeat("x", 1<<20)
	log := slog.New(newRepeats(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: bounded})))
	log.Warn("connection denied", "node", long, "error", errors.New(long), "tries", 1)
	if n := out.Len(); n > 3*maxLogged || !strings.Contains(out.String(), "tries=1") {
		t.Errorf("%d bytes are logged", n)
	}
}

// A repeated warning is logged once a minute, because a denied proxy retries for ever.
func TestLog_RepeatedWarningOnceAMinute(t *testing.T) {
	var out bytes.Buffer
	h := newRepeats(slog.NewTextHandler(&out, nil))
	now := time.Now()
	warn := func(log slog.Handler, at time.Duration, level slog.Level, node string) {
		r := slog.NewRecord(now.Add(at), level, "proxy denied", 0)
		r.AddAttrs(slog.String("node", node), slog.Any("error", errors.New("no token")))
		if err := log.Handle(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	logged := func(want ...string) {
		t.Helper()
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		out.Reset()
		if len(lines) != len(want) {
			t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), strings.Join(lines, "\n"))
		}
		for i, w := range want {
			if !strings.Contains(lines[i], w) {
				t.Errorf("line %q lacks %q", lines[i], w)
			}
		}
	}
	for i := range 180 {
		warn(h, time.Duration(i)*time.Second/3, slog.LevelWarn, "a")
	}
	warn(h, time.Second, slog.LevelWarn, "b")
	warn(h, time.Second, slog.LevelError, "a")
	warn(h.WithAttrs([]slog.Attr{slog.String("gateway", "x")}), time.Second, slog.LevelWarn, "a")
	logged("node=a", "node=b", "level=ERROR", "gateway=x")
	warn(h, time.Minute, slog.LevelWarn, "a")
	logged("node=a error=\"no token\" repeated=179")
	warn(h, time.Minute, slog.LevelInfo, "a")
	warn(h, time.Minute, slog.LevelInfo, "a")
	logged("level=INFO", "level=INFO")

	for i := range 2 * repeatsKept {
		warn(h, 0, slog.LevelWarn, fmt.Sprint(i))
	}
	if n := len(h.seen.texts); n > repeatsKept {
		t.Errorf("%d texts are kept, want at most %d", n, repeatsKept)
	}
}
