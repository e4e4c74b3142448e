package recording

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func lines(t *testing.T, path string) (all []Line) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.Lines(string(raw)) {
		var l Line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%s: %v in %q", path, err, text)
		}
		all = append(all, l)
	}
	return all
}

func run(t *testing.T, f *File) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = f.Run(ctx) })
	return func() { cancel(); running.Wait() }
}

func TestRecord_BoundedByTwoFiles(t *testing.T) {
	const limit = 20_000
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	f, err := Open(path, limit, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, f)
	for i := range 1000 {
		for len(f.lines) > waiting/2 {
			poll.Until(t, "lines are written", func() bool { return len(f.lines) == 0 })
		}
		f.Add(Line{Timestamp: int64(i), InputLength: 600, OutputLength: 1, HashIDs: []int64{1, 2}, Pool: "ns/pool"})
	}
	stop()
	newest, older := lines(t, path), lines(t, path+".1")
	size := int64(0)
	for _, name := range []string{path, path + ".1"} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("got %v %v, want mode 0600", info, err)
		}
		size += info.Size()
	}
	if size > limit || newest[len(newest)-1].Timestamp != 999 ||
		older[len(older)-1].Timestamp+1 != newest[0].Timestamp || f.Dropped() != 0 {
		t.Errorf("%d bytes, %d and %d lines, %d dropped; want at most %d bytes, no gap, and none dropped",
			size, len(older), len(newest), f.Dropped(), limit)
	}
	// The next process keeps the lines of this one.
	if _, err := Open(path, limit, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if got := lines(t, path+".1"); len(got) != len(newest) || len(lines(t, path)) != 0 {
		t.Errorf("%d lines of the process before, want %d", len(got), len(newest))
	}
}

func TestRecord_FullDiskDropsAndRecovers(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "there")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := Open(filepath.Join(folder, "trace.jsonl"), 1<<20, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	stop := run(t, f)
	defer stop()
	f.Add(Line{})
	poll.Until(t, "a line is dropped", func() bool { return f.Dropped() > 0 })
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "lines are written again", func() bool {
		f.Add(Line{})
		info, err := os.Stat(filepath.Join(folder, "trace.jsonl"))
		return err == nil && info.Size() > 0
	})
}

func TestRecord_PathThatCannotBeWritten(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none", "trace.jsonl"), 1<<20, nil); err == nil {
		t.Error("no error")
	}
}
