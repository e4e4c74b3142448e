//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const old = "/.machine"

var shared = []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "nix"}

// trusted are folders of /etc that the machine's programs need: CAs, and the dynamic linker's
// settings.
var trusted = []string{"/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/ld.so.cache", "/etc/alternatives"}

var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

func enter(spec Spec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("root", spec.Root, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount the root: %w", err)
	}
	if err := ownFolders(spec); err != nil {
		return err
	}
	for _, name := range shared {
		if err := share(spec, name); err != nil {
			return err
		}
	}
	if err := os.Mkdir(filepath.Join(spec.Root, old), 0o700); err != nil {
		return err
	}
	if err := unix.PivotRoot(spec.Root, filepath.Join(spec.Root, old)); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	// From here on, paths and symbolic links resolve inside the container.
	for _, step := range []func(Spec) error{system, etc, program, mounts} {
		if err := step(spec); err != nil {
			return err
		}
	}
	if err := unix.Unmount(old, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the machine's root: %w", err)
	}
	if err := os.Remove(old); err != nil {
		return err
	}
	if spec.ReadOnly {
		return readOnly("/")
	}
	return nil
}

// ownFolders creates the mounts' folders in the container's writable layer. Without root, files can
// only be added to folders of this layer.
func ownFolders(spec Spec) error {
	targets := []string{spec.At}
	for _, m := range spec.Mounts {
		targets = append(targets, m.Target)
	}
	for _, target := range targets {
		target = filepath.Clean("/" + target)
		first, rest, _ := strings.Cut(target[1:], "/")
		if link, err := os.Readlink("/" + first); err == nil { // on most machines /bin links to usr/bin
			target = filepath.Join("/", link, rest)
			first, _, _ = strings.Cut(target[1:], "/")
		}
		if !slices.Contains(shared, first) {
			continue
		}
		if err := os.MkdirAll(filepath.Join(spec.Layer, filepath.Dir(target)), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// share mounts a folder of the machine. Writes go to the container's layer. If the kernel cannot
// layer the folder, it is mounted read-only.
func share(spec Spec, name string) error {
	source, target := "/"+name, filepath.Join(spec.Root, name)
	info, err := os.Lstat(source)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		link, err := os.Readlink(source)
		if err != nil {
			return err
		}
		return os.Symlink(link, target)
	}
	upper, work := filepath.Join(spec.Layer, name), filepath.Join(spec.Layer, "."+name)
	for _, dir := range []string{target, upper, work} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", source, upper, work)
	for _, more := range []string{"", ",userxattr"} { // user namespaces need userxattr
		if err = unix.Mount("overlay", target, "overlay", 0, options+more); err == nil {
			return nil
		}
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s: %w", source, err)
	}
	return readOnly(target)
}

func system(Spec) error {
	for _, dir := range []string{"/proc", "/sys", "/dev/pts", "/dev/shm", "/etc", "/root", "/run", "/var/run",
		"/var/lib", "/var/log", "/var/cache", "/home", "/opt"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/tmp", "/var/tmp"} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
		if err := os.Chmod(dir, 0o777|fs.ModeSticky); err != nil {
			return err
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY,
		""); err != nil {
		return fmt.Errorf("mount /sys: %w", err)
	}
	if err := unix.Mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC,
		"newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return fmt.Errorf("mount /dev/pts: %w", err)
	}
	if err := unix.Mount("shm", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
		"mode=1777"); err != nil {
		return fmt.Errorf("mount /dev/shm: %w", err)
	}
	for _, name := range devices {
		if err := bind(Mount{Source: "/dev/" + name, Target: "/dev/" + name}); err != nil {
			return err
		}
	}
	for link, to := range map[string]string{"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0",
		"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, "/dev/"+link); err != nil {
			return err
		}
	}
	return nil
}

func etc(spec Spec) error {
	for name, content := range spec.Files {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			return err
		}
	}
	for _, path := range trusted {
		if _, err := os.Stat(old + path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := bind(Mount{Source: path, Target: path, ReadOnly: true}); err != nil {
			return err
		}
	}
	return nil
}

func program(spec Spec) error {
	return bind(Mount{Source: spec.Program, Target: spec.At, ReadOnly: true})
}

func mounts(spec Spec) error {
	// Mount a folder before the folders below it.
	slices.SortStableFunc(spec.Mounts, func(a, b Mount) int {
		return strings.Count(filepath.Clean(a.Target), "/") - strings.Count(filepath.Clean(b.Target), "/")
	})
	for _, m := range spec.Mounts {
		if err := bind(m); err != nil {
			return err
		}
	}
	return nil
}

func bind(m Mount) error {
	source := filepath.Join(old, m.Source)
	info, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("mount %s: %w", m.Target, err)
	}
	if info.IsDir() {
		err = os.MkdirAll(m.Target, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(m.Target), 0o755); err == nil {
		var f *os.File
		if f, err = os.OpenFile(m.Target, os.O_CREATE|os.O_RDONLY, 0o644); err == nil {
			err = f.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("mount %s: %w", m.Target, err)
	}
	if err := unix.Mount(source, m.Target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s: %w", m.Target, err)
	}
	if m.ReadOnly {
		return readOnly(m.Target)
	}
	return nil
}

// readOnly remounts with the mount's original flags, as the kernel demands in a user namespace.
func readOnly(target string) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(target, &stat); err != nil {
		return fmt.Errorf("mount %s read-only: %w", target, err)
	}
	const kept = unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC // these bits equal the flags of mount
	flags := uintptr(stat.Flags) & kept
	if stat.Flags&unix.ST_NOATIME != 0 {
		flags |= unix.MS_NOATIME
	}
	if stat.Flags&unix.ST_RELATIME != 0 {
		flags |= unix.MS_RELATIME
	}
	if err := unix.Mount("", target, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|flags, ""); err != nil {
		return fmt.Errorf("mount %s read-only: %w", target, err)
	}
	return nil
}
