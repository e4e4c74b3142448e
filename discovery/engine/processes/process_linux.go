package processes

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// maxEnviron bounds the searched bytes of a process's environment.
const maxEnviron = 4 << 20

type stat struct {
	state   byte
	parent  int
	session int
	start   string // in clock ticks since boot
	cpu     uint64 // clock ticks in user and kernel mode
}

// parseStat reads a line of /proc/PID/stat, proc_pid_stat(5). The command's name may contain
// spaces, parentheses and line breaks.
func parseStat(raw []byte) (stat, error) {
	_, rest, found := cutLast(string(raw), ")")
	fields := strings.Fields(rest)
	if !found || len(fields) < 20 {
		return stat{}, errors.New("not a line of /proc/PID/stat")
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return stat{}, err
	}
	session, err := strconv.Atoi(fields[3])
	if err != nil {
		return stat{}, err
	}
	user, err := strconv.ParseUint(fields[11], 10, 64)
	if err != nil {
		return stat{}, err
	}
	kernel, err := strconv.ParseUint(fields[12], 10, 64)
	if err != nil {
		return stat{}, err
	}
	if _, err := strconv.ParseUint(fields[19], 10, 64); err != nil {
		return stat{}, err
	}
	return stat{state: fields[0][0], parent: parent, session: session, start: fields[19], cpu: user + kernel}, nil
}

func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}

func readStat(pid int) (stat, error) {
	raw, err := os.ReadFile(proc(pid, "stat"))
	if err != nil {
		return stat{}, err
	}
	return parseStat(raw)
}

func proc(pid int, file string) string { return filepath.Join("/proc", strconv.Itoa(pid), file) }

// boot identifies the current boot. Start times are relative to it, and process IDs start again.
var boot = sync.OnceValue(func() string {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(raw))
})

// identity differs between processes that have the same ID one after another. A zombie has ended.
func identity(pid int) (string, bool) {
	s, err := readStat(pid)
	if err != nil || s.state == 'Z' || s.state == 'X' {
		return "", false
	}
	return boot() + "/" + s.start, true
}

// watch closes ended once a process has ended. Until release, it needs a pidfd and a goroutine.
func watch(pid int, want string) (ended <-chan struct{}, release func()) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.EINVAL) { // Linux 5.3 to 5.9
		if fd, err = unix.PidfdOpen(pid, 0); err == nil {
			err = unix.SetNonblock(fd, true)
		}
	}
	if errors.Is(err, unix.ESRCH) {
		done := make(chan struct{})
		close(done)
		return done, func() {}
	}
	if err != nil {
		return polled(pid, want, time.Second)
	}
	f := os.NewFile(uintptr(fd), "pidfd") // Go's poller waits for it
	conn, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return polled(pid, want, time.Second)
	}
	done := make(chan struct{})
	go func() {
		if conn.Read(hasEnded) == nil {
			close(done)
		}
	}()
	return done, func() { _ = f.Close() }
}

func hasEnded(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}

type found struct {
	pid      int
	identity string
	leader   bool // leader of a session: an engine, not a worker
}

func find(marks []mark) [][]found {
	all := make([][]found, len(marks))
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return all
	}
	logs := make([]os.FileInfo, len(marks))
	for i, m := range marks {
		logs[i], _ = os.Stat(m.log)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		for _, i := range carries(pid, marks, logs) {
			s, err := readStat(pid)
			if err == nil && s.state != 'Z' && s.state != 'X' {
				all[i] = append(all[i], found{pid: pid, identity: boot() + "/" + s.start, leader: s.session == pid})
			}
		}
	}
	return all
}

func carries(pid int, marks []mark, logs []os.FileInfo) (indexes []int) {
	environ := readEnviron(pid)
	var output []os.FileInfo
	for _, fd := range []string{"fd/1", "fd/2"} {
		if info, err := os.Stat(proc(pid, fd)); err == nil && info.Mode().IsRegular() {
			output = append(output, info)
		}
	}
	for i, m := range marks {
		carried := m.token != "" && bytes.Contains(environ, []byte("\x00"+tokenName+"="+m.token+"\x00"))
		for _, info := range output {
			carried = carried || logs[i] != nil && os.SameFile(info, logs[i])
		}
		if carried {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// readEnviron returns the variables with a NUL byte before and after each.
func readEnviron(pid int) []byte {
	f, err := os.Open(proc(pid, "environ"))
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	raw, _ := io.ReadAll(io.LimitReader(f, maxEnviron))
	return append(append([]byte{0}, raw...), 0)
}

// kill kills the process, if its ID is not reused by now.
func (f found) kill() {
	fd, err := unix.PidfdOpen(f.pid, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	if got, ok := identity(f.pid); ok && got == f.identity {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}
