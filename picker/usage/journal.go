package usage

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// While earlier segments wait for the database, the open segment is closed only at fullSegment
	// bytes.
	fullSegment = 1 << 20
	// A closed segment of at least compactFrom bytes is compacted to one row for each key.
	compactFrom = 256 << 10
	// While more than maxWaiting bytes of segments wait for the database, counts wait in memory.
	maxWaiting = 64 << 20
	// maxLine bounds a line of a segment, in bytes.
	maxLine = 16 << 10
)

// Batch is the content of one segment.
type Batch struct {
	// Process is the process's name. Start identifies one run of the process, and Sequence counts
	// the run's segments from 1.
	Process  string `json:"process"`
	Start    string `json:"start"`
	Sequence int64  `json:"sequence"`
	Rows     []Row  `json:"-"`
}

// journal writes segments to a folder. It is not safe for concurrent use.
type journal struct {
	folder string
	batch  Batch // of the open segment, or of the last one if none is open
	open   *os.File
	size   int64 // bytes of the open segment, in whole lines
	closed int64 // in bytes
}

const segmentSuffix = ".rows"

func (j *journal) path(sequence int64) string {
	return filepath.Join(j.folder, fmt.Sprintf("%s.%09d%s", j.batch.Start, sequence, segmentSuffix))
}

func (j *journal) full() bool { return j.closed+j.size > maxWaiting }

func (j *journal) append(list []Row) error {
	var text bytes.Buffer
	if j.open == nil {
		if err := os.MkdirAll(j.folder, 0o700); err != nil {
			return err
		}
		f, err := os.OpenFile(j.path(j.batch.Sequence+1), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		j.batch.Sequence++
		j.open, j.size = f, 0
	}
	if j.size == 0 {
		writeLine(&text, j.batch)
	}
	for _, r := range list {
		writeLine(&text, r)
	}
	n, err := j.open.Write(text.Bytes())
	if err != nil {
		if n > 0 { // the disk is full: remove the written part
			err = errors.Join(err, j.open.Truncate(j.size))
		}
		return err
	}
	j.size += int64(n)
	return nil
}

func writeLine(to *bytes.Buffer, value any) {
	raw, err := json.Marshal(value)
	if err != nil {
		return // cannot happen with strings and finite numbers
	}
	to.Write(raw)
	to.WriteByte('\n')
}

func (j *journal) close() error {
	if j.open == nil || j.size == 0 {
		return nil
	}
	f, size := j.open, j.size
	j.open, j.size = nil, 0
	j.closed += size
	err := errors.Join(f.Sync(), f.Close())
	if size < compactFrom || err != nil {
		return err
	}
	batch, err := readSegment(f.Name())
	if err != nil {
		return err
	}
	var text bytes.Buffer
	writeLine(&text, batch)
	for _, r := range batch.Rows {
		writeLine(&text, r)
	}
	if int64(text.Len()) > size/2 {
		return nil
	}
	if err := replace(f.Name(), text.Bytes()); err != nil {
		return err
	}
	j.closed -= size - int64(text.Len())
	return nil
}

// replace replaces a file atomically: a kill or a power cut leaves the old or the new content.
func replace(path string, text []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		return os.Rename(f.Name(), path)
	}
	return errors.Join(err, os.Remove(f.Name()))
}

// segments lists the closed segments in a folder, and their total size in bytes. They are sorted by
// Batch.Start, then by Batch.Sequence.
func segments(folder, open string) (paths []string, bytes int64, err error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		if !strings.HasSuffix(e.Name(), segmentSuffix) || path == open {
			continue
		}
		if info, err := e.Info(); err == nil {
			paths, bytes = append(paths, path), bytes+info.Size()
		}
	}
	slices.Sort(paths)
	return paths, bytes, nil
}

var errDamaged = errors.New("the segment names no process, start and sequence")

// readSegment reads a segment, and sums its rows by key. It skips an incomplete line, which a kill
// or a full disk may leave.
func readSegment(path string) (b Batch, err error) {
	f, err := os.Open(path)
	if err != nil {
		return b, err
	}
	defer func() { _ = f.Close() }()
	lines, sums := bufio.NewReaderSize(f, maxLine), rows{}
	for first := true; ; first = false {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) { // too long for a segment's line
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = lines.ReadSlice('\n')
			}
			line = nil
		}
		switch {
		case errors.Is(err, io.EOF):
			if b.Start == "" {
				return b, errDamaged
			}
			b.Rows = sums.sorted()
			return b, nil
		case err != nil:
			return b, err
		case first:
			if json.Unmarshal(line, &b) != nil || b.Start == "" || b.Sequence < 1 {
				return b, errDamaged
			}
			continue
		}
		var r Row
		if json.Unmarshal(line, &r) != nil || !r.valid() {
			continue
		}
		sums.add(r.Key, r.Counts)
	}
}
