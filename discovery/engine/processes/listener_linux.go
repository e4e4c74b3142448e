package processes

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// maxTCP bounds the bytes read of /proc/net/tcp and tcp6, which list listening sockets first.
const maxTCP = 4 << 20

type processes map[int]stat

func listProcesses() processes {
	all := processes{}
	f, err := os.Open("/proc")
	if err != nil {
		return all
	}
	defer func() { _ = f.Close() }()
	names, _ := f.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if s, err := readStat(pid); err == nil {
				all[pid] = s
			}
		}
	}
	return all
}

// listener returns which process listens at the address of an engine's readiness check. The
// session, the descendants and the processes with the mark m belong to the engine. The owner is
// unknown if the socket is not listed, or the files of one of these processes are hidden.
func (all processes) listener(ready string, pid int, m mark) owner {
	to, ok := address(ready)
	if _, listed := all[pid]; !ok || !listed {
		return unknown
	}
	sockets := receivers(listSockets(), to)
	if len(sockets) == 0 {
		return unknown
	}
	hidden := false
	search := func(pid int) (found bool) {
		hidden = !strike(sockets, pid) || hidden
		return len(sockets) == 0
	}
	for other, s := range all {
		if all.belongs(other, s, pid) && search(other) {
			return own
		}
	}
	for _, f := range find([]mark{m})[0] {
		if search(f.pid) {
			return own
		}
	}
	if hidden {
		return unknown
	}
	return others
}

// belongs reports whether a process is in an engine's session, or descends from the engine.
func (all processes) belongs(pid int, s stat, engine int) bool {
	return s.session == engine || all.descends(pid, engine)
}

// tick is the unit of CPU times in /proc, USER_HZ of Linux.
const tick = 10 * time.Millisecond

func (all processes) cpu(pid int) (used time.Duration, ok bool) {
	for other, s := range all {
		if all.belongs(other, s, pid) {
			used, ok = used+time.Duration(s.cpu)*tick, true
		}
	}
	return used, ok
}

func (all processes) descends(pid, from int) bool {
	for range len(all) { // IDs may be reused while the list is read, so parents may form a circle
		if pid == from {
			return true
		}
		s, ok := all[pid]
		if !ok || s.parent == 0 {
			return false
		}
		pid = s.parent
	}
	return false
}

// strike deletes the sockets of a process. It returns false if the process's files are hidden.
func strike(sockets map[string]bool, pid int) bool {
	folder := proc(pid, "fd")
	f, err := os.Open(folder)
	if err != nil {
		return !errors.Is(err, fs.ErrPermission)
	}
	defer func() { _ = f.Close() }()
	names, err := f.Readdirnames(-1)
	if errors.Is(err, fs.ErrPermission) {
		return false
	}
	for _, name := range names {
		target, err := os.Readlink(folder + "/" + name)
		if errors.Is(err, fs.ErrPermission) {
			return false
		}
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			delete(sockets, strings.TrimSuffix(inode, "]"))
		}
	}
	return true
}

func listSockets() (all []listening) {
	for _, path := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		all = append(all, readSockets(path)...)
	}
	return all
}

func readSockets(path string) (all []listening) {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	read := 0
	for lines.Scan() && read < maxTCP {
		read += len(lines.Bytes())
		if l, err := parseListening(lines.Text(), binary.NativeEndian.PutUint32); err == nil {
			all = append(all, l)
		} else if len(all) > 0 {
			break // connections follow
		}
	}
	return all
}
