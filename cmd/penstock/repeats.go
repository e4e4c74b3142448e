package main

import (
	"context"
	"hash/maphash"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	repeatAfter = time.Minute
	repeatsKept = 4096
	// maxLogged bounds an attribute's text, in bytes, because clients or API servers may have sent
	// it.
	maxLogged = 8 << 10
)

// repeats drops warnings and errors that were logged within the last minute. A denied proxy retries
// three times a second.
type repeats struct {
	slog.Handler
	prefix string
	seen   *seen
}

type seen struct {
	seed  maphash.Seed
	mu    sync.Mutex
	texts map[uint64]*repeated
}

type repeated struct {
	logged  time.Time
	dropped int // repetitions since the record was logged
}

func newRepeats(h slog.Handler) *repeats {
	return &repeats{Handler: h, seen: &seen{seed: maphash.MakeSeed(), texts: map[uint64]*repeated{}}}
}

func (h *repeats) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return h.Handler.Handle(ctx, r)
	}
	var text maphash.Hash
	text.SetSeed(h.seen.seed)
	_, _ = text.WriteString(h.prefix + r.Level.String() + " " + r.Message)
	r.Attrs(func(a slog.Attr) bool {
		_, _ = text.WriteString(" " + a.String())
		return true
	})
	more, due := h.seen.due(text.Sum64(), r.Time)
	if !due {
		return nil
	}
	if more > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("repeated", more))
	}
	return h.Handler.Handle(ctx, r)
}

func bounded(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString, slog.KindAny:
		if text := a.Value.String(); len(text) > maxLogged {
			return slog.String(a.Key, strings.ToValidUTF8(text[:maxLogged], "")+"…")
		}
	}
	return a
}

func (h *repeats) WithAttrs(attrs []slog.Attr) slog.Handler {
	prefix := h.prefix
	for _, a := range attrs {
		prefix += a.String() + " "
	}
	return &repeats{Handler: h.Handler.WithAttrs(attrs), prefix: prefix, seen: h.seen}
}

func (h *repeats) WithGroup(name string) slog.Handler {
	return &repeats{Handler: h.Handler.WithGroup(name), prefix: h.prefix + name + ".", seen: h.seen}
}

func (s *seen) due(text uint64, now time.Time) (dropped int, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, known := s.texts[text]
	switch {
	case known && now.Sub(r.logged) < repeatAfter:
		r.dropped++
		return 0, false
	case known:
		dropped = r.dropped
	case len(s.texts) >= repeatsKept:
		clear(s.texts)
	}
	s.texts[text] = &repeated{logged: now}
	return dropped, true
}
