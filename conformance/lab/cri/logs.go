//go:build linux

package cri

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// longest bounds a piece of a line, in bytes. The kubelet joins the pieces of longer lines.
const longest = 16 << 10

// logFile writes lines in the kubelet's format: time, stream, P or F, text. P marks a part of a
// line, F its end.
type logFile struct {
	path string
	mu   sync.Mutex
	file *os.File
}

func (l *logFile) open() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	if l.file != nil {
		_ = l.file.Close()
	}
	l.file = file
	return nil
}

func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
}

// copy drops output that it cannot write. A full disk must not block the container.
func (l *logFile) copy(stream string, from io.Reader) {
	r := bufio.NewReaderSize(from, longest)
	for {
		text, err := r.ReadSlice('\n')
		if len(text) > 0 {
			tag := "F"
			if text[len(text)-1] == '\n' {
				text = text[:len(text)-1]
			} else if errors.Is(err, bufio.ErrBufferFull) {
				tag = "P"
			}
			l.mu.Lock()
			if l.file != nil {
				_, _ = fmt.Fprintf(l.file, "%s %s %s %s\n", time.Now().UTC().Format(time.RFC3339Nano), stream, tag,
					text)
			}
			l.mu.Unlock()
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}
