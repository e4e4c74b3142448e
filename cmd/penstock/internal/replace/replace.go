package replace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/penstock-project/penstock/xds/supervisor"
)

const (
	stateVariable = "PENSTOCK_REPLACES"
	checkVariable = "PENSTOCK_REPLACE_CHECK"
	checkTimeout  = 10 * time.Second
	mostOutput    = 4 << 10
)

// State is what a program leaves to the next one.
type State struct {
	PID     int
	Version string
	Began   time.Time // when the earlier program ended
	Sockets map[string][]int
	Envoys  []supervisor.Kept
}

// Inherit returns the State of the earlier program, or nil without one.
func Inherit() *State {
	raw := os.Getenv(stateVariable)
	_ = os.Unsetenv(stateVariable)
	var s State
	if json.Unmarshal([]byte(raw), &s) != nil || s.PID != os.Getpid() {
		return nil
	}
	return &s
}

// Checking reports whether this program was started by Check.
func Checking() bool { return os.Getenv(checkVariable) != "" }

// Program returns the absolute path of the file that this process was started from. It is called
// before the working folder may change.
func Program() (string, error) {
	path, err := exec.LookPath(os.Args[0])
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// Check runs a program with this process's arguments, and returns the version that it prints.
func Check(ctx context.Context, program string) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program)
	cmd.Args, cmd.Env, cmd.WaitDelay = os.Args, append(os.Environ(), checkVariable+"=1"), time.Second
	var out, stderr bounded
	cmd.Stdout, cmd.Stderr = &out, &stderr
	switch err := cmd.Run(); {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s does not end its check within %s", program, checkTimeout)
	case err != nil:
		if text := strings.TrimSpace(stderr.String()); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return "", fmt.Errorf("%s: %w", program, err)
	}
	version, ok := strings.CutPrefix(out.String(), checked)
	if !ok {
		return "", fmt.Errorf("%s cannot replace a penstock that runs: restart this one instead", program)
	}
	return strings.TrimSpace(version), nil
}

const checked = "can replace: "

// Answer prints what Check reads.
func Answer(out io.Writer, version string) error {
	_, err := fmt.Fprintln(out, checked+version)
	return err
}

type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	_, _ = b.Buffer.Write(p[:min(len(p), max(mostOutput-b.Len(), 0))])
	return len(p), nil
}

// Execute replaces this program. It returns only an error. Only the caller's thread survives, with
// its children.
func (s State) Execute(program string) error {
	s.PID, s.Began = os.Getpid(), time.Now()
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	for _, fd := range s.descriptors() {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return fmt.Errorf("file descriptor %d: %w", fd, err)
		}
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, stateVariable+"=") })
	env = append(env, stateVariable+"="+string(raw))
	// A second signal must not end the process before the new program handles it.
	signal.Ignore(unix.SIGUSR2)
	err = syscall.Exec(program, os.Args, env)
	// The new program's file was removed after Check. On Linux, the running program's file still
	// exists: execute that one again.
	return errors.Join(err, syscall.Exec("/proc/self/exe", os.Args, env))
}

func (s State) descriptors() (list []int) {
	for _, fds := range s.Sockets {
		list = append(list, fds...)
	}
	for _, e := range s.Envoys {
		list = append(list, e.Stderr)
	}
	return list
}
