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

	"github.com/penstock-project/penstock/discovery/status/report"
)

// FileName is the status file's name in the state folder.
const FileName = "status.json"

// Source is what a Writer writes down. *Board is one.
type Source interface {
	List() []report.Report
	Wait(ctx context.Context, seen uint64) (uint64, error)
}

// WriterConfig is what a Writer needs.
type WriterConfig struct {
	Source     Source
	Path       string           // of the status file; its folder is made if need be
	Controller string           // controllerName of parents' statuses
	Delay      time.Duration    // how long changes are collected before they are written; 100 ms by default
	Now        func() time.Time // nil: time.Now
	Log        *slog.Logger     // nil: slog.Default
}

// Writer keeps the status file.
type Writer struct{ cfg WriterConfig }

// NewWriter makes a Writer.
func NewWriter(cfg WriterConfig) (*Writer, error) {
	if cfg.Source == nil || cfg.Path == "" {
		return nil, errors.New("status writer: no source or no path given")
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

// Run writes the file now and after each change, and a last time when its context ends. A file that cannot be written is
// logged and tried again with the next change: traffic does not depend on it.
func (w *Writer) Run(ctx context.Context) error {
	var seen uint64
	for {
		if err := w.Write(); err != nil {
			w.cfg.Log.Error("cannot write the status file", "error", err)
		}
		n, err := w.cfg.Source.Wait(ctx, seen)
		if err == nil {
			seen = n
			select {
			case <-ctx.Done():
			case <-time.After(w.cfg.Delay):
				continue
			}
		}
		return w.Write()
	}
}

// Write writes the file once, if it would say anything new.
func (w *Writer) Write() error {
	before, err := Read(w.cfg.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.cfg.Log.Warn("the old status file cannot be read; transition times begin anew", "error", err)
		before = nil
	}
	doc := NewDocument(w.cfg.Source.List(), w.cfg.Controller, before, w.cfg.Now())
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
	enc.SetEscapeHTML(false) // messages are for people
	enc.SetIndent("", "  ")
	err := enc.Encode(doc)
	return buf.Bytes(), err
}

// replace puts a new file in place of an old one at once.
func replace(path string, raw []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".writing-*")
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if chmodErr := f.Chmod(0o644); err == nil {
		err = chmodErr
	}
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
