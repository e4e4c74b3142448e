package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/penstock-project/penstock/discovery/statefile"
)

// Home returns the parent of this user's state folders: penstock below $XDG_STATE_HOME, which is
// ~/.local/state by default.
func Home() (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) { // the XDG specification ignores a relative path
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no folder for state; choose one with --state: %w", err)
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "penstock"), nil
}

// Open makes a folder, or checks that an existing folder is private: owned by this process's user,
// with mode 0700. An empty folder of this user becomes private. Open removes the unfinished files
// of a process that was killed.
func Open(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("state folder: %w", err)
	}
	// The owner of a link can replace it, so the owner must be this user or root.
	link, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("state folder: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("state folder: %w", err)
	}
	self := uint32(os.Geteuid())
	isLink := link.Mode()&fs.ModeSymlink != 0
	switch owner := ownerOf(link); {
	case owner != self && !(isLink && owner == 0):
		return notOwned(dir, owner)
	case ownerOf(info) != self:
		return notOwned(dir, ownerOf(info))
	case info.Mode().Perm()&0o077 == 0:
		_ = statefile.Sweep(dir) // fails in a read-only folder, which needs no sweep
		return nil
	}
	return restrict(dir, info.Mode().Perm())
}

// restrict makes an empty folder private. A folder with files is an error, because it may have
// another use.
func restrict(dir string, mode fs.FileMode) error {
	// Chmod comes first, so that no other user can add a file after the check.
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("state folder: %w", err)
	}
	files, err := os.ReadDir(dir)
	if err == nil && len(files) == 0 {
		return nil
	}
	open := fmt.Errorf(
		"state folder %s is open to other users (mode %#o): run chmod 700 %s, or choose another folder with --state",
		dir, mode, dir)
	return errors.Join(open, err, os.Chmod(dir, mode))
}

func notOwned(dir string, owner uint32) error {
	return fmt.Errorf("state folder %s belongs to the user with ID %d, who could replace its files: choose another "+
		"folder with --state", dir, owner)
}

func ownerOf(info fs.FileInfo) uint32 { return info.Sys().(*syscall.Stat_t).Uid }
