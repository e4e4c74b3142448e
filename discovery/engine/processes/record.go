package processes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/penstock-project/penstock/discovery/statefile"
)

// record identifies a process for the next supervisor. It has no argument and no variable.
type record struct {
	Name      string        `json:"name"`
	Hash      string        `json:"hash,omitempty"`
	Token     string        `json:"token,omitempty"`    // token of the current process; empty: no process
	PID       int           `json:"pid,omitempty"`      // 0 with a token: the start was interrupted
	Identity  string        `json:"identity,omitempty"` // boot and start time of the process
	Boot      string        `json:"boot,omitempty"`
	Started   time.Time     `json:"started,omitzero"`
	Served    bool          `json:"served,omitempty"` // the process was ready
	ServedAt  time.Time     `json:"servedAt,omitzero"`
	Ready     string        `json:"ready,omitempty"`
	Any       bool          `json:"anyListener,omitempty"`
	Startup   time.Duration `json:"startupTimeout,omitempty"`
	Grace     time.Duration `json:"stopGrace,omitempty"`
	LogFrom   int64         `json:"logFrom,omitempty"` // offset at which this process's log begins
	Starts    int           `json:"starts,omitempty"`
	Failures  int           `json:"failures,omitempty"` // consecutive failures
	Reason    string        `json:"reason,omitempty"`
	LastWords string        `json:"lastWords,omitempty"`
}

const (
	maxRecord   = 64 << 10
	recordEnd   = ".json"
	brokenEnd   = ".broken"
	maxRecorded = 4096 // files read at the start
)

func writeRecord(path string, r record) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return statefile.ReplaceOn(unsynced{}, path, append(raw, '\n'))
}

// unsynced replaces files atomically without fsync, which can take seconds. After a power cut,
// records are useless, because all processes have ended.
type unsynced struct{ statefile.Machine }

func (unsynced) Sync(string) error { return nil }

func (d unsynced) CreateTemp(folder, pattern string) (statefile.File, error) {
	f, err := d.Machine.CreateTemp(folder, pattern)
	return unsyncedFile{f}, err
}

type unsyncedFile struct{ statefile.File }

// Sync implements statefile.File.
func (unsyncedFile) Sync() error { return nil }

// errPowerCut reports an empty record, which only a power cut leaves. Its process has ended, too.
var errPowerCut = errors.New("the file is empty")

func readRecord(path string) (record, error) {
	f, err := os.Open(path)
	if err != nil {
		return record{}, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return record{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxRecord {
		return record{}, fmt.Errorf("not a record: mode %v, %d bytes", info.Mode(), info.Size())
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return record{}, err
	}
	if len(raw) == 0 {
		return record{}, errPowerCut
	}
	var r record
	if err := json.Unmarshal(raw, &r); err != nil {
		return record{}, err
	}
	if r.Name == "" || len(r.Name) > maxName || r.PID < 0 || r.PID == 1 || r.PID > 1<<30 ||
		r.PID > 0 && (r.Token == "" || r.Identity == "") {
		return record{}, errors.New("a field is missing or out of range")
	}
	if want := fileName(r.Name) + recordEnd; filepath.Base(path) != want {
		return record{}, fmt.Errorf("it is the record of %q, which belongs into %s", r.Name, want)
	}
	limits := Process{StartupTimeout: r.Startup, StopGrace: r.Grace}
	r.Startup, r.Grace = limits.startup(), limits.grace()
	return r, nil
}
