package status

import (
	"path/filepath"
	"testing"
	"time"
)

// While thousands of objects arrive, the file is written only at intervals.
func TestWriter_LargeFileIsWrittenLessOften(t *testing.T) {
	w, err := NewWriter(WriterConfig{Board: NewBoard(nil), Path: filepath.Join(t.TempDir(), FileName)})
	if err != nil {
		t.Fatal(err)
	}
	for took, want := range map[time.Duration]time.Duration{
		0: 100 * time.Millisecond, 5 * time.Millisecond: 100 * time.Millisecond,
		60 * time.Millisecond: 540 * time.Millisecond, time.Second: 2 * time.Second,
	} {
		if got := w.delay(took); got != want {
			t.Errorf("after a write of %s the next one waits for %s, want %s", took, got, want)
		}
	}
}
