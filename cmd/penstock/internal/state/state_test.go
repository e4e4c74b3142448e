package state

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func modeOf(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestState_NewFolderIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := Open(dir); err != nil {
		t.Fatal(err)
	}
	if got := modeOf(t, dir); got != 0o700 {
		t.Errorf("mode %#o, want 0o700", got)
	}
	if err := Open(dir); err != nil {
		t.Errorf("at the next start: %v", err)
	}
}

func TestState_EmptyFolderBecomesPrivate(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := Open(dir); err != nil || modeOf(t, dir) != 0o700 {
		t.Errorf("mode %#o, %v, want 0o700", modeOf(t, dir), err)
	}
}

func TestState_FolderWithFilesOfOthersIsAnError(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "planted"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	if err := Open(dir); err == nil || !strings.Contains(err.Error(), "chmod 700") || modeOf(t, dir) != 0o770 {
		t.Errorf("got mode %#o, %v, want 0770, and chmod 700", modeOf(t, dir), err)
	}
}

func TestState_FolderOrLinkOfAnotherUserIsAnError(t *testing.T) {
	if os.Geteuid() != 0 {
		if err := Open("/"); err == nil {
			t.Error("the folder of root is accepted")
		}
		return
	}
	dir, other := t.TempDir(), t.TempDir()
	if err := os.Chown(other, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if err := Open(other); err == nil || !strings.Contains(err.Error(), "12345") {
		t.Errorf("folder of another user: got %v, want an error about 12345", err)
	}
	link, own := filepath.Join(dir, "link"), filepath.Join(dir, "own")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(own, link); err != nil {
		t.Fatal(err)
	}
	if err := Open(link); err != nil {
		t.Errorf("own link: %v", err)
	}
	if err := os.Lchown(link, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if err := Open(link); err == nil {
		t.Error("a link that another user can replace is accepted")
	}
}
