package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// trackedBytes limits a tracked file, in bytes, because a clone downloads every version of it.
const trackedBytes = 1 << 20

var largeFiles = map[string]string{}

// executables are the first bytes of ELF and Mach-O programs. The last one also begins Java
// classes.
var executables = []string{
	"\x7fELF", "\xfe\xed\xfa\xce", "\xfe\xed\xfa\xcf", "\xce\xfa\xed\xfe", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe",
}

// Built programs belong in bin/ or .tools/, which git ignores.
func TestLayout_NoProgramIsTracked(t *testing.T) {
	if _, err := os.Stat(filepath.Join(root, ".git")); errors.Is(err, fs.ErrNotExist) {
		t.Skip("this folder is an archive of the sources: git lists no files")
	}
	list, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	files := strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00")
	if len(files) < 1000 {
		t.Fatalf("git lists %d files: this test looks in the wrong place", len(files))
	}
	for _, file := range files {
		if finding := trackedFinding(t, filepath.Join(root, file), largeFiles[file] != ""); finding != "" {
			t.Errorf("%s %s: git rm it, and ignore it in .gitignore", file, finding)
		}
	}
}

func TestLayout_TrackedProgramsAreFound(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		text  string
		large bool
		want  bool
	}{
		"text":       {text: "package main\n"},
		"empty":      {},
		"elf":        {text: "\x7fELF\x02\x01", want: true},
		"macho":      {text: "\xcf\xfa\xed\xfe\x07", want: true},
		"elfallowed": {text: "\x7fELF\x02\x01", large: true, want: true},
		"large":      {text: strings.Repeat("x", trackedBytes+1), want: true},
		"allowed":    {text: strings.Repeat("x", trackedBytes+1), large: true},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := trackedFinding(t, path, c.large); (got != "") != c.want {
			t.Errorf("%s: got %q, want a finding: %v", name, got, c.want)
		}
	}
}

// trackedFinding returns why a file must not be tracked; "" means that it may.
func trackedFinding(t *testing.T, path string, mayBeLarge bool) string {
	t.Helper()
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return ""
	} else if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	head := make([]byte, 4)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	for _, magic := range executables {
		if bytes.Equal(head[:n], []byte(magic)) {
			return "is an executable"
		}
	}
	if !mayBeLarge && info.Size() > trackedBytes {
		return fmt.Sprintf("has %d bytes, of at most %d", info.Size(), trackedBytes)
	}
	return ""
}
