package processes

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Recorded is a process that a supervisor has started, or will start again.
type Recorded struct {
	Name string
	Runs bool // as far as its record shows
}

// List returns the processes of a folder, unsorted, without its lock and without unreadable
// records.
func List(dir string) (out []Recorded, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	for len(out) < maxRecorded {
		names, err := f.Readdirnames(maxRecorded)
		for _, name := range names {
			if !strings.HasSuffix(name, recordEnd) {
				continue
			}
			if r, err := readRecord(filepath.Join(dir, name)); err == nil {
				out = append(out, Recorded{Name: r.Name, Runs: r.PID > 0})
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
