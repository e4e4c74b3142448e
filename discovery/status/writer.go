package status

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/penstock-project/penstock/discovery/statefile"
)

// FileName is the status file's name in the state folder.
const FileName = "status.json"

// WriterConfig configures a Writer.
type WriterConfig struct {
	Board      *Board
	Path       string // path of the status file; missing folders are created
	Controller string // controllerName in parents' statuses
	// Delay is the minimum time between two writes; default 100 ms. A file that takes long to write
	// is written less often.
	Delay time.Duration
	Now   func() time.Time // nil: time.Now
	Log   *slog.Logger     // nil: slog.Default
}

// Writer keeps the status file up to date.
type Writer struct {
	cfg     WriterConfig
	outcome statefile.Outcome
}

// NewWriter makes a Writer.
func NewWriter(cfg WriterConfig) (*Writer, error) {
	if cfg.Board == nil || cfg.Path == "" {
		return nil, errors.New("status writer: board or path is missing")
	}
	if cfg.Delay <= 0 {
		cfg.Delay = 100 * time.Millisecond
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Writer{cfg: cfg}, nil
}

// A write replaces the whole file. With 10,000 reports, it takes 60 ms. Pauses between writes limit
// writing to 1/maxShare of the time. No pause exceeds maxDelay.
const (
	maxShare = 10
	maxDelay = 2 * time.Second
)

func (w *Writer) delay(took time.Duration) time.Duration {
	return max(w.cfg.Delay, min(took*(maxShare-1), maxDelay))
}

const retryInterval = 10 * time.Second

// Run writes the file at once, after each change, and when ctx ends. A failed write is logged and
// repeated, because traffic does not depend on the file.
func (w *Writer) Run(ctx context.Context) error {
	for {
		ws, began := NewWatchSet(), time.Now()
		w.outcome.Log(w.cfg.Log, w.cfg.Path, "when conditions changed", w.write(ws))
		delay := w.delay(time.Since(began))
		if w.outcome.Failed() {
			delay = retryInterval
		} else if ws.WatchCtx(ctx) != nil {
			delay = 0
		}
		select {
		case <-ctx.Done():
			w.outcome.Log(w.cfg.Log, w.cfg.Path, "when conditions changed", w.Write())
			return nil
		case <-time.After(delay):
		}
	}
}

// Write writes the file once, unless it is up to date.
func (w *Writer) Write() error { return w.write(nil) }

func (w *Writer) write(ws WatchSet) error {
	// Read the old document again, because keeping it takes 4 MB with 5,000 routes.
	before, old := w.found()
	doc := NewDocument(w.cfg.Board.List(ws), w.cfg.Controller, before, w.cfg.Now())
	raw, err := encode(doc)
	if err != nil {
		return fmt.Errorf("status file: %w", err)
	}
	if bytes.Equal(old, raw) {
		return nil
	}
	if err := statefile.Replace(w.cfg.Path, raw); err != nil {
		return fmt.Errorf("status file: %w", err)
	}
	return nil
}

func (w *Writer) found() (doc *Document, text []byte) {
	text, err := os.ReadFile(w.cfg.Path)
	if err == nil {
		doc, err = decode(w.cfg.Path, text)
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			w.cfg.Log.Warn("cannot read the old status file; transition times start again", "error", err)
		}
		return &Document{}, text
	}
	return doc, text
}

// encode encodes a document item by item. encoding/json keeps the buffer of each encoded value in a
// pool, and a large buffer would occupy memory.
func encode(doc *Document) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // keeps < and > readable in messages
	enc.SetIndent("    ", "  ")
	err := errors.Join(encodeList(&buf, enc, "{\n  \"objects\": [", doc.Objects),
		encodeList(&buf, enc, ",\n  \"findings\": [", doc.Findings))
	buf.WriteString("\n}\n")
	return buf.Bytes(), err
}

func encodeList[T any](buf *bytes.Buffer, enc *json.Encoder, before string, items []T) error {
	buf.WriteString(before)
	for i := range items {
		if i > 0 {
			buf.WriteByte(',')
		}
		buf.WriteString("\n    ")
		if err := enc.Encode(&items[i]); err != nil {
			return err
		}
		buf.Truncate(buf.Len() - 1)
	}
	if len(items) > 0 {
		buf.WriteString("\n  ")
	}
	buf.WriteByte(']')
	return nil
}

// Read reads a status file.
func Read(path string) (*Document, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return decode(path, raw)
}

func decode(path string, raw []byte) (*Document, error) {
	doc := &Document{}
	if err := json.Unmarshal(raw, doc); err != nil {
		return nil, fmt.Errorf("status file %s: %w", path, err)
	}
	return doc, nil
}
