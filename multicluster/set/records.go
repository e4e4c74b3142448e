package set

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/statefile"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/registry"
)

const (
	// maxRecordLine bounds a record, and maxRecordFile a member's file, in bytes.
	maxRecordLine = 1 << 20
	maxRecordFile = 64 << 20
	recordSuffix  = ".jsonl"
	// maxLocal bounds the files of LocalRecords, in bytes, because pods have a small volume.
	maxLocal = 16 << 20
)

// fileRecords implements Records with one file for each member: the member's own record, and then
// its exports.
type fileRecords struct {
	disk   statefile.Disk
	folder string
	limit  int // bounds the size of all files, in bytes; 0: no limit

	mu    sync.Mutex
	kept  map[string]map[objectid.Pool][]byte
	sizes map[string]int
}

// Records returns Config.Records.
func (f Files) Records() Records { return newFileRecords(f.Disk, f.State, 0) }

// LocalRecords returns a Config.Local with files in this process's state folder. It drops the
// records that exceed maxLocal.
func LocalRecords(state string) Records { return newFileRecords(statefile.Machine{}, state, maxLocal) }

func newFileRecords(disk statefile.Disk, state string, limit int) *fileRecords {
	return &fileRecords{
		disk: disk, folder: filepath.Join(state, "cluster", "records"), limit: limit,
		kept: map[string]map[objectid.Pool][]byte{}, sizes: map[string]int{},
	}
}

type line struct {
	Namespace string                        `json:"namespace,omitempty"`
	Name      string                        `json:"name,omitempty"`
	UID       string                        `json:"uid"`
	Epoch     uint64                        `json:"epoch"`
	Sequence  uint64                        `json:"sequence"`
	Entry     *inferenceapi.ImportedCluster `json:"entry,omitempty"`
	Since     int64                         `json:"since,omitempty"`
	Withdrawn bool                          `json:"withdrawn,omitempty"`
	Draining  bool                          `json:"draining,omitempty"`
	Bundle    string                        `json:"bundle,omitempty"`
	Started   int64                         `json:"started,omitempty"` // milliseconds since 1970
}

// Load implements Records.
func (f *fileRecords) Load(context.Context) (out []registry.Record, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	files, err := f.disk.ReadDir(f.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, file := range files {
		cluster, ok := strings.CutSuffix(file.Name(), recordSuffix)
		if !ok {
			continue
		}
		list, err := readRecords(f.disk, filepath.Join(f.folder, file.Name()), cluster)
		if err != nil {
			problems = append(problems, err)
		}
		f.kept[cluster], f.sizes[cluster] = map[objectid.Pool][]byte{}, 0
		for i := range list {
			if l, err := encodeRecord(&list[i]); err == nil {
				f.kept[cluster][list[i].Pool] = l
				f.sizes[cluster] += len(l)
			}
		}
		out = append(out, list...)
	}
	return out, errors.Join(problems...)
}

func readRecords(disk statefile.Disk, path, cluster string) (out []registry.Record, err error) {
	file, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err != nil || info.Size() > maxRecordFile {
		return nil, errors.Join(fmt.Errorf("%s has more than %d MiB", path, maxRecordFile>>20), err)
	}
	var damaged []int
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxRecordLine)
	n := 0
	for lines.Scan() {
		n++
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil || l.UID == "" || (l.Name == "") != (l.Entry == nil) ||
			(l.Name == "") != (l.Namespace == "") {
			damaged = append(damaged, n)
			continue
		}
		r := registry.Record{
			RecordID: registry.RecordID{Cluster: cluster, Pool: objectid.Pool{Namespace: l.Namespace, Name: l.Name}},
			UID:      l.UID, Stamp: registry.Stamp{Epoch: l.Epoch, Sequence: l.Sequence}, Since: l.Since,
			Withdrawn: l.Withdrawn, Draining: l.Draining, Bundle: []byte(l.Bundle),
		}
		if l.Entry != nil {
			r.Entry = *l.Entry
		}
		if l.Started > 0 {
			r.Started = time.UnixMilli(l.Started)
		}
		out = append(out, r)
	}
	if lines.Err() != nil {
		damaged = append(damaged, n+1)
	}
	if len(damaged) > 0 {
		return out, fmt.Errorf("%s is damaged in line %d, and in %d others", path, damaged[0], len(damaged)-1)
	}
	return out, nil
}

// Save implements Records. If one file cannot be written, it still writes the others.
func (f *fileRecords) Save(_ context.Context, changed []registry.Record, gone []registry.RecordID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	dirty := map[string]bool{}
	var problems []error
	for i := range changed {
		r := &changed[i]
		if f.kept[r.Cluster] == nil {
			f.kept[r.Cluster] = map[objectid.Pool][]byte{}
		}
		dirty[r.Cluster] = true
		l, err := encodeRecord(r)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		f.kept[r.Cluster][r.Pool] = l
	}
	for _, id := range gone {
		delete(f.kept[id.Cluster], id.Pool)
		dirty[id.Cluster] = true
	}
	for _, cluster := range slices.Sorted(maps.Keys(dirty)) {
		problems = append(problems, f.write(cluster))
	}
	return errors.Join(problems...)
}

// The caller holds mu.
func (f *fileRecords) write(cluster string) error {
	path := filepath.Join(f.folder, cluster+recordSuffix)
	delete(f.sizes, cluster)
	if len(f.kept[cluster]) == 0 {
		delete(f.kept, cluster)
		switch err := f.disk.Remove(path); {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		}
		return f.disk.Sync(f.folder) // otherwise a power cut may bring the file back
	}
	room := maxRecordFile
	if f.limit > 0 {
		room = min(room, f.limit)
		for _, n := range f.sizes {
			room -= n
		}
	}
	var out bytes.Buffer
	for _, p := range slices.SortedFunc(maps.Keys(f.kept[cluster]), objectid.Pool.Compare) {
		// dropped records are sent again by members after a restart
		if l := f.kept[cluster][p]; len(l) <= maxRecordLine && out.Len()+len(l) <= room {
			out.Write(l)
		}
	}
	f.sizes[cluster] = out.Len()
	return statefile.ReplaceOn(f.disk, path, out.Bytes())
}

func encodeRecord(r *registry.Record) ([]byte, error) {
	l := line{Namespace: r.Pool.Namespace, Name: r.Pool.Name, UID: r.UID, Epoch: r.Stamp.Epoch,
		Sequence: r.Stamp.Sequence, Since: r.Since, Withdrawn: r.Withdrawn, Draining: r.Draining,
		Bundle: string(r.Bundle)}
	if r.Pool != (objectid.Pool{}) {
		l.Entry = &r.Entry
	}
	if !r.Started.IsZero() {
		l.Started = r.Started.UnixMilli()
	}
	out, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("export %s/%s of %s: %w", r.Pool.Namespace, r.Pool.Name, r.Cluster, err)
	}
	return append(out, '\n'), nil
}
