package supervisor

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
)

// Level and logger contain no space. With --log-format-escaped, each message is one line.
const logFormat = "%l %n %v"

var unescape = strings.NewReplacer(`\\`, `\`, `\'`, `'`, `\"`, `"`, `\n`, "\n", `\t`, "\t", `\r`, "\r")

var levels = map[string]slog.Level{
	"trace": slog.LevelDebug, "debug": slog.LevelDebug, "info": slog.LevelInfo,
	"warning": slog.LevelWarn, "warn": slog.LevelWarn, "error": slog.LevelError, "critical": slog.LevelError,
}

// A message about a stream begins `[Tags: "ConnectionId":"1","StreamId":"2"] text`.
const tags = "[Tags: "

// adoptedFor is how long an adopted Envoy may warn of the earlier program's streams.
const adoptedFor = 10 * time.Second

const repeatAfter = 10 * time.Second

// workInProgress marks Envoy's warnings about work-in-progress API fields.
const workInProgress = " marked as work-in-progress. API features"

type logWriter struct {
	log       *slog.Logger
	rest      []byte
	lastError string // level error or above: probably why Envoy ended

	lastWarning string
	warnedAt    time.Time
	ending      atomic.Bool // Envoy is being stopped; its messages are demoted to debug
	crashed     bool
	adopted     time.Time // zero if Envoy is not adopted
}

// After a crash, Envoy writes headers and buffers of requests in flight, which may contain
// credentials.
const crashLogger = "backtrace"

// Write implements io.Writer. It never fails, because an error would block Envoy.
func (w *logWriter) Write(b []byte) (int, error) {
	w.rest = append(w.rest, b...)
	for {
		line, rest, found := bytes.Cut(w.rest, []byte("\n"))
		if !found {
			return len(b), nil
		}
		w.record(string(line))
		w.rest = rest
	}
}

func (w *logWriter) flush() {
	if len(w.rest) > 0 {
		w.record(string(w.rest))
		w.rest = nil
	}
}

// Before Envoy sets up its log, it writes lines in another format. They count as warnings.
func (w *logWriter) record(line string) {
	level, logger, text := slog.LevelWarn, "", line
	if parts := strings.SplitN(line, " ", 3); len(parts) == 3 {
		if known, ok := levels[parts[0]]; ok {
			level, logger, text = known, parts[1], unescape.Replace(parts[2])
		}
	}
	if w.crashed = w.crashed || logger == crashLogger; w.crashed && logger != crashLogger {
		return
	}
	if text = strings.TrimSpace(text); text == "" {
		return
	}
	if level >= slog.LevelError {
		w.lastError = text
	}
	// The control plane logs a NACK once, with its cause; Envoy logs it up to four times. Penstock
	// chooses the work-in-progress fields (docs/envoy.md). Both messages are demoted to debug.
	replaced := strings.Contains(text, "gRPC") && time.Since(w.adopted) < adoptedFor
	if replaced || w.ending.Load() || strings.Contains(text, " rejected: ") || strings.Contains(text, workInProgress) {
		level = slog.LevelDebug
	}
	if level >= slog.LevelWarn { // an unreachable picker causes a warning for each request
		if _, rest, ok := strings.Cut(text, "] "); ok && strings.HasPrefix(text, tags) {
			text = rest
		}
		if text == w.lastWarning && time.Since(w.warnedAt) < repeatAfter {
			level = slog.LevelDebug
		} else {
			w.lastWarning, w.warnedAt = text, time.Now()
		}
	}
	w.log.Log(context.Background(), level, text, "envoy", logger)
}
