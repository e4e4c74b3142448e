package hub

import (
	"context"
	"log/slog"
	"strings"
)

// longestText bounds each text in the hub's log, in bytes, because members' API servers return any
// text.
const longestText = 1 << 10

type boundedLog struct{ slog.Handler }

// Handle implements slog.Handler.
func (b boundedLog) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, bounded(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(boundedAttr(a))
		return true
	})
	return b.Handler.Handle(ctx, out)
}

// WithAttrs implements slog.Handler.
func (b boundedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	list := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		list[i] = boundedAttr(a)
	}
	return boundedLog{b.Handler.WithAttrs(list)}
}

// WithGroup implements slog.Handler.
func (b boundedLog) WithGroup(name string) slog.Handler { return boundedLog{b.Handler.WithGroup(name)} }

func boundedAttr(a slog.Attr) slog.Attr {
	switch a.Value = a.Value.Resolve(); a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(bounded(a.Value.String()))
	case slog.KindAny:
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(bounded(err.Error()))
		}
	default:
	}
	return a
}

func bounded(text string) string {
	if len(text) <= longestText {
		return text
	}
	return strings.ToValidUTF8(text[:longestText], "") + "..."
}
