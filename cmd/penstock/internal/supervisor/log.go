package supervisor

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
)

// logFormat is what Envoy writes for each message: level, logger and text; the first two hold no space. It is used with
// --log-format-escaped, so that a message of several lines stays one; Envoy escapes the format's own characters too.
const logFormat = "%l %n %v"

// unescape takes back what --log-format-escaped did. What is not ASCII stays in octal: Envoy's messages hardly have any.
var unescape = strings.NewReplacer(`\\`, `\`, `\'`, `'`, `\"`, `"`, `\n`, "\n", `\t`, "\t", `\r`, "\r")

// levels are Envoy's words for how bad it is.
var levels = map[string]slog.Level{
	"trace": slog.LevelDebug, "debug": slog.LevelDebug, "info": slog.LevelInfo,
	"warning": slog.LevelWarn, "warn": slog.LevelWarn, "error": slog.LevelError, "critical": slog.LevelError,
}

// repeatAfter is how long a complaint is not passed on again while nothing else is said.
const repeatAfter = 10 * time.Second

// logWriter turns Envoy's standard error into log records. One goroutine writes to it.
type logWriter struct {
	log  *slog.Logger
	rest []byte // a line whose end has not come yet
	last string // the latest message at level error or above: probably why it died

	told   string // the latest message at level warning or above, and when it was passed on
	toldAt time.Time
	ending atomic.Bool // Envoy was told to end: that its streams break then is no news
}

// Write never fails: a log that cannot be read must not block Envoy.
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

// flush forwards a last line without an end.
func (w *logWriter) flush() {
	if len(w.rest) > 0 {
		w.record(string(w.rest))
		w.rest = nil
	}
}

// record forwards one line. What is not in our format was written before Envoy's log was set up, or by a dying process
// (a signal handler's stack): it matters, so it is a warning.
func (w *logWriter) record(line string) {
	level, logger, text := slog.LevelWarn, "", line
	if parts := strings.SplitN(line, " ", 3); len(parts) == 3 {
		if known, ok := levels[parts[0]]; ok {
			level, logger, text = known, parts[1], unescape.Replace(parts[2])
		}
	}
	if text = strings.TrimSpace(text); text == "" {
		return
	}
	if level >= slog.LevelError {
		w.last = text
	}
	// What Envoy refuses it says up to four times; the control plane says it once, with the object at fault.
	if w.ending.Load() || strings.Contains(text, " rejected: ") {
		level = slog.LevelDebug
	}
	if level >= slog.LevelWarn { // a picker that is away would be a line for every request
		if text == w.told && time.Since(w.toldAt) < repeatAfter {
			level = slog.LevelDebug
		} else {
			w.told, w.toldAt = text, time.Now()
		}
	}
	w.log.Log(context.Background(), level, text, "envoy", logger)
}
