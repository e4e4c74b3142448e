package recording

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/penstock-project/penstock/discovery/filesystem"
)

// Line is one request. The first four members are Mooncake's.
type Line struct {
	Timestamp    int64   `json:"timestamp"`     // ms from the file's start to the pick
	InputLength  int     `json:"input_length"`  // of the prompt, in tokens
	OutputLength int     `json:"output_length"` // of the response, in tokens estimated from bytes
	HashIDs      []int64 `json:"hash_ids"`      // one for each 512 tokens of the prompt

	Model   string `json:"model,omitempty"`
	Pool    string `json:"pool"`
	Request string `json:"request,omitempty"`
	Server  string `json:"server,omitempty"`
	Status  int    `json:"status,omitempty"`
	Stream  bool   `json:"stream,omitempty"`
	Cached  int    `json:"cached_tokens"` // assumed by the pick
	// TTFT is ms from the request's arrival at Envoy to the first byte of a streamed body.
	TTFT    float64 `json:"ttft,omitempty"`
	Headers float64 `json:"headers,omitempty"` // ms from the arrival to the response's headers
	// Took is ms from the arrival to the end of the request. If Penstock does not configure the
	// gateway, Took begins at the pick.
	Took  float64 `json:"took"`
	Bytes int64   `json:"output_bytes"` // of the response
}

const (
	waiting    = 4096
	flushEvery = time.Second
)

// File writes a trace to disk. Its methods are safe for concurrent use.
type File struct {
	path    string
	disk    filesystem.Disk
	limit   int64 // maximum size of each of the two files, in bytes
	log     *slog.Logger
	began   time.Time
	key     uint64
	lines   chan Line
	dropped atomic.Uint64
}

// Open makes a File. bytes bounds FILE and FILE.1 together. An earlier process's file becomes
// FILE.1.
func Open(path string, bytes int64, log *slog.Logger) (*File, error) {
	f := &File{path: path, limit: max(bytes/2, 1), log: log, began: time.Now(), key: rand.Uint64(),
		lines: make(chan Line, waiting)}
	out, err := f.next()
	if err != nil {
		return nil, err
	}
	return f, out.Close()
}

func (f *File) next() (*os.File, error) {
	if info, err := f.disk.Stat(f.path); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
		if err := os.Rename(f.path, f.path+".1"); err != nil {
			return nil, err
		}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return f.disk.Create(f.path)
}

// Began returns the time at which Line.Timestamp is 0.
func (f *File) Began() time.Time { return f.began }

// Key returns the random key for hashes of prompts.
func (f *File) Key() uint64 { return f.key }

// Add passes a line to Run, or drops the line if Run is too slow.
func (f *File) Add(l Line) {
	select {
	case f.lines <- l:
	default:
		f.dropped.Add(1)
	}
}

// Dropped counts the dropped lines.
func (f *File) Dropped() uint64 { return f.dropped.Load() }

// Run writes lines until ctx ends, and then the remaining ones. It drops lines while writes fail.
func (f *File) Run(ctx context.Context) error {
	out := &output{file: f}
	defer out.close()
	flush := time.NewTicker(flushEvery)
	defer flush.Stop()
	for {
		select {
		case <-ctx.Done():
			for {
				select {
				case l := <-f.lines:
					out.write(l)
					continue
				default:
				}
				return nil
			}
		case l := <-f.lines:
			out.write(l)
		case <-flush.C:
			out.flush()
		}
	}
}

type output struct {
	file   *File
	to     *os.File
	buffer *bufio.Writer
	size   int64
	failed bool
	retry  time.Time
}

func (o *output) write(l Line) {
	raw, err := json.Marshal(l)
	if err != nil { // unreachable: plain values always marshal
		return
	}
	raw = append(raw, '\n')
	if o.to != nil && o.size+int64(len(raw)) > o.file.limit {
		o.close()
	}
	if o.to == nil && !o.open() {
		o.file.dropped.Add(1)
		return
	}
	if _, err := o.buffer.Write(raw); err != nil {
		o.fail(err)
		return
	}
	o.size += int64(len(raw))
}

func (o *output) open() bool {
	if time.Now().Before(o.retry) {
		return false
	}
	to, err := o.file.next()
	if err != nil {
		o.fail(err)
		return false
	}
	o.to, o.buffer, o.size = to, bufio.NewWriterSize(to, 64<<10), 0
	return true
}

func (o *output) flush() {
	if o.to == nil {
		return
	}
	if err := o.buffer.Flush(); err != nil {
		o.fail(err)
		return
	}
	o.failed = false
}

func (o *output) close() {
	if o.flush(); o.to != nil {
		_ = o.to.Close()
		o.to = nil
	}
}

func (o *output) fail(err error) {
	if !o.failed {
		o.file.log.Error("requests are not recorded", "error", fmt.Errorf("--record: %w", err))
	}
	if o.failed, o.retry = true, time.Now().Add(flushEvery); o.to != nil {
		_ = o.to.Close()
		o.to = nil
	}
}
