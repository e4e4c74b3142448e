package processes

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	logEnd = ".log"
	oldEnd = ".1"
	newEnd = ".new" // extension of an unfinished copy
	// keptLogs is how many processes that are no longer wanted keep their logs.
	keptLogs = 32
)

func openLog(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// size returns the bytes of a file, 0 if it does not exist.
func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// rotate moves the end of a log over limit bytes to another file, and empties the log, even if the
// copy fails on a full disk. Engines append, so they continue at the start.
func rotate(path string, limit int64) (rotated bool, err error) {
	if size(path) <= limit {
		return false, nil
	}
	if err = copyEnd(path, limit); err != nil {
		err = errors.Join(err, os.Remove(path+oldEnd))
	}
	return true, errors.Join(err, os.Truncate(path, 0))
}

func copyEnd(path string, limit int64) (err error) {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	if _, err := from.Seek(max(0, info.Size()-limit), io.SeekStart); err != nil {
		return err
	}
	temporary := path + oldEnd + newEnd
	to, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	// The limit ends the copy even if the engine writes faster.
	_, err = io.Copy(to, io.LimitReader(from, limit+limit/4))
	if err = errors.Join(err, to.Close()); err == nil {
		err = os.Rename(temporary, path+oldEnd)
	}
	if err != nil {
		_ = os.Remove(temporary)
	}
	return err
}

// tail returns the last n bytes of a log after the offset from, including a rotated file. whole
// means that text starts at from.
func tail(path string, from, n int64) (text []byte, whole bool) {
	end := size(path)
	if end >= from {
		start := max(from, end-n)
		return section(path, start, end-start), start == from
	}
	text = section(path, max(0, end-n), n)
	if left := n - int64(len(text)); left > 0 {
		text = append(section(path+oldEnd, max(0, size(path+oldEnd)-left), left), text...)
	}
	return text, false
}

func section(path string, start, n int64) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	text, _ := io.ReadAll(io.NewSectionReader(f, start, n))
	return text
}

// prune removes the oldest logs of unwanted processes, and leaves keptLogs of them.
func prune(dir string, keep func(base string) bool) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	var left []fs.FileInfo
	for _, entry := range entries {
		base, ok := strings.CutSuffix(entry.Name(), logEnd)
		if info, err := entry.Info(); ok && err == nil && info.Mode().IsRegular() && !keep(base) {
			left = append(left, info)
		}
	}
	slices.SortFunc(left, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, info := range left[min(len(left), keptLogs):] {
		for _, end := range []string{"", oldEnd, oldEnd + newEnd} {
			_ = os.Remove(filepath.Join(dir, info.Name()+end))
		}
	}
}
