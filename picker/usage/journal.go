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
	// fullSegment is the size, in bytes, at which a segment closes while earlier segments wait for
	// the database.
	fullSegment = 1 << 20
	// From compactFrom bytes on, a closed segment is compacted to one row for each key.
	compactFrom = 256 << 10
	// Above maxWaiting bytes of segments that wait for the database, counts wait in memory.
	maxWaiting = 64 << 20
	// maxLine bounds a line of a segment, in bytes.
	maxLine = 16 << 10
)

// Batch is the content of one segment.
type Batch struct {
	// Start differs after each start of Process. Sequence numbers the segments from 1.
	Process  string `json:"process"`
	Start    string `json:"start"`
	Sequence int64  `json:"sequence"`
	Rows     []Row  `json:"-"`
}

// Methods of journal must not be called concurrently.
type journal struct {
	folder string
	batch  Batch // batch of the open segment, or otherwise of the last one
	open   *os.File
	size   int64 // size of the open segment, which has only whole lines
	closed int64 // bytes of closed segments
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
		if n > 0 { // a part fitted on the disk, and is removed
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

// A kill or a power cut leaves the old or the new segment.
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

// segments lists the segments of a folder except the open segment, and returns their size in bytes.
// They are sorted by Batch.Start, then by Batch.Sequence.
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

// readSegment sums a segment's rows by key. It skips the incomplete line that a kill or a full disk
// leaves.
func readSegment(path string) (b Batch, err error) {
	f, err := os.Open(path)
	if err != nil {
		return b, err
	}
	defer func() { _ = f.Close() }()
	lines, sums := bufio.NewReaderSize(f, maxLine), rows{}
	for first := true; ; first = false {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) { // the line is too long to be a segment's
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
