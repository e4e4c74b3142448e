package main

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// repeatAfter is how often one and the same warning is worth a line.
	repeatAfter = time.Minute
	// repeatsKept is how many texts are remembered; with more than that, all begin anew.
	repeatsKept = 4096
)

// repeats is a handler that leaves out warnings and errors that were logged in the last minute with the same text and the same
// attributes: whatever is tried again, and a proxy that is refused tries three times a second, says once a minute what is
// still wrong, and how often it was.
type repeats struct {
	slog.Handler
	prefix string // what WithAttrs and WithGroup added
	seen   *seen
}

// seen is what all handlers that come from one share.
type seen struct {
	mu    sync.Mutex
	texts map[string]*repeated
}

// repeated is one text.
type repeated struct {
	told time.Time
	more int // times that it was left out since
}

func newRepeats(h slog.Handler) *repeats {
	return &repeats{Handler: h, seen: &seen{texts: map[string]*repeated{}}}
}

// Handle implements slog.Handler.
func (h *repeats) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return h.Handler.Handle(ctx, r)
	}
	text := h.prefix + r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	more, tell := h.seen.tell(text, r.Time)
	if !tell {
		return nil
	}
	if more > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("repeated", more))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *repeats) WithAttrs(attrs []slog.Attr) slog.Handler {
	prefix := h.prefix
	for _, a := range attrs {
		prefix += a.String() + " "
	}
	return &repeats{Handler: h.Handler.WithAttrs(attrs), prefix: prefix, seen: h.seen}
}

// WithGroup implements slog.Handler.
func (h *repeats) WithGroup(name string) slog.Handler {
	return &repeats{Handler: h.Handler.WithGroup(name), prefix: h.prefix + name + ".", seen: h.seen}
}

// tell says whether a text is to be told now, and how often it was left out before.
func (s *seen) tell(text string, now time.Time) (more int, tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, known := s.texts[text]
	switch {
	case known && now.Sub(r.told) < repeatAfter:
		r.more++
		return 0, false
	case known:
		more = r.more
	case len(s.texts) >= repeatsKept:
		clear(s.texts)
	}
	s.texts[text] = &repeated{told: now}
	return more, true
}
