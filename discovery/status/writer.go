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
	"path/filepath"
	"time"
)

// FileName is the status file's name in the state folder.
const FileName = "status.json"

// WriterConfig is what a Writer needs.
type WriterConfig struct {
	Board      *Board
	Path       string           // of the status file; its folder is created if it does not exist
	Controller string           // controllerName in parents' statuses
	Delay      time.Duration    // how long changes are debounced before they are written; 100 ms by default
	Now        func() time.Time // nil: time.Now
	Log        *slog.Logger     // nil: slog.Default
}

// Writer keeps the status file up to date.
type Writer struct{ cfg WriterConfig }

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

// Run writes the file at once, after each change, and a last time when its context ends. A failed write is logged and repeated at the
// next change: traffic does not depend on the file.
func (w *Writer) Run(ctx context.Context) error {
	for {
		ws := NewWatchSet()
		if err := w.write(ws); err != nil {
			w.cfg.Log.Error("cannot write the status file", "error", err)
		}
		if err := ws.WatchCtx(ctx); err == nil {
			select {
			case <-ctx.Done():
			case <-time.After(w.cfg.Delay):
				continue
			}
		}
		return w.Write()
	}
}

// Write writes the file once, unless it is up to date.
func (w *Writer) Write() error { return w.write(nil) }

func (w *Writer) write(ws WatchSet) error {
	before, err := Read(w.cfg.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.cfg.Log.Warn("cannot read the old status file; transition times start again", "error", err)
		before = nil
	}
	doc := NewDocument(w.cfg.Board.List(ws), w.cfg.Controller, before, w.cfg.Now())
	raw, err := encode(doc)
	if err != nil {
		return fmt.Errorf("status file: %w", err)
	}
	if old, err := os.ReadFile(w.cfg.Path); err == nil && bytes.Equal(old, raw) {
		return nil
	}
	if err := replace(w.cfg.Path, raw); err != nil {
		return fmt.Errorf("status file: %w", err)
	}
	return nil
}

func encode(doc *Document) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // people read the messages
	enc.SetIndent("", "  ")
	err := enc.Encode(doc)
	return buf.Bytes(), err
}

// replace writes a file atomically.
func replace(path string, raw []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".writing-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Read reads a status file.
func Read(path string) (*Document, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	doc := &Document{}
	if err := json.Unmarshal(raw, doc); err != nil {
		return nil, fmt.Errorf("status file %s: %w", path, err)
	}
	return doc, nil
}
