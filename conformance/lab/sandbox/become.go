//go:build linux

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Become turns the calling process into the container that SpecFD describes. It returns only after
// a failure, which it has written to ErrorFD.
func Become() error {
	runtime.LockOSThread() // the program inherits the settings of this thread
	report := os.NewFile(ErrorFD, "error")
	unix.CloseOnExec(ErrorFD)
	err := become()
	fmt.Fprint(report, err)
	return err
}

func become() error {
	file := os.NewFile(SpecFD, "spec")
	var spec Spec
	if err := json.NewDecoder(file).Decode(&spec); err != nil {
		return fmt.Errorf("container's description: %w", err)
	}
	_ = file.Close()
	if err := enter(spec); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(spec.Hostname)); err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	if err := identity(spec); err != nil {
		return err
	}
	if err := os.MkdirAll(spec.Dir, 0o755); err != nil && !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("working directory: %w", err)
	}
	if err := os.Chdir(spec.Dir); err != nil {
		return fmt.Errorf("working directory: %w", err)
	}
	path, err := LookPath(spec.Args[0], spec.Env)
	if err != nil {
		return err
	}
	if err := syscall.Exec(path, spec.Args, spec.Env); err != nil {
		return fmt.Errorf("run %s: %w", path, err)
	}
	return nil
}

// LookPath finds a program in the PATH of env, inside the container.
func LookPath(name string, env []string) (string, error) {
	if strings.ContainsRune(name, '/') {
		return name, nil
	}
	for _, e := range env {
		list, ok := strings.CutPrefix(e, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("exec: %q: executable file not found in $PATH", name)
}

func identity(spec Spec) error {
	if spec.NoNewPrivileges {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("no new privileges: %w", err)
		}
	}
	if spec.UID == 0 && spec.GID == 0 && len(spec.Groups) == 0 {
		return nil
	}
	if !Users() {
		fmt.Fprintf(os.Stderr, "lab: without root, there is one user only: this container does not run as user %d\n",
			spec.UID)
		return nil
	}
	if err := syscall.Setgroups(spec.Groups); err != nil {
		return fmt.Errorf("groups: %w", err)
	}
	if err := syscall.Setgid(spec.GID); err != nil {
		return fmt.Errorf("group %d: %w", spec.GID, err)
	}
	if err := syscall.Setuid(spec.UID); err != nil {
		return fmt.Errorf("user %d: %w", spec.UID, err)
	}
	return nil
}

// Users reports whether the user namespace has more than one user. A lab without root has one user.
func Users() bool {
	raw, err := os.ReadFile("/proc/self/uid_map")
	fields := strings.Fields(string(raw))
	return err == nil && len(fields) == 3 && fields[2] != "1"
}
