package fetch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

func noSpace(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// room returns an error if a download would exceed Config.Limit or fill the disk.
func (f *Fetcher) room(bytes int64) error {
	if f.cfg.Limit > 0 {
		used, err := used(f.cfg.Folder)
		if err != nil {
			return disk(err)
		}
		if used+bytes > f.cfg.Limit {
			return &Error{Problem: fmt.Sprintf("the model needs %s, and the models that are there have %s of %s",
				Size(bytes), Size(used), Size(f.cfg.Limit)), Fix: "remove one with penstock rm, or raise the limit"}
		}
	}
	return f.free(bytes)
}

// free returns an error if a download would leave less than Config.Reserve on the disk.
func (f *Fetcher) free(bytes int64) error {
	dir := f.cfg.Folder
	for {
		var s syscall.Statfs_t
		err := syscall.Statfs(dir, &s)
		if errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
			dir = filepath.Dir(dir)
			continue
		}
		if err != nil {
			return disk(err)
		}
		if free := int64(s.Bavail) * int64(s.Bsize); bytes > free-f.cfg.Reserve {
			return &Error{Problem: fmt.Sprintf("the download needs %s, and the disk with %s has %s, of which %s stay "+
				"free", Size(bytes), f.cfg.Folder, Size(free), Size(f.cfg.Reserve)),
				Fix: "make room, remove a model with penstock rm, or name another folder with HF_HUB_CACHE"}
		}
		return nil
	}
}

// used returns the size in bytes of all models in the cache.
func used(folder string) (sum int64, err error) {
	blobs, err := filepath.Glob(filepath.Join(folder, "models--*", "blobs", "*"))
	for _, path := range blobs {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
	}
	return sum, err
}

// Size formats a number of bytes for users, such as "4.7 GiB".
func Size(bytes int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	value, unit := float64(bytes), 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}
