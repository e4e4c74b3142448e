package supervisor

import "syscall"

const (
	mostConnections  = 50_000
	reservedFiles    = 4096
	leastConnections = 256
)

// connections returns the limit of client connections for a limit of open files. A connection may
// need a second file, for its upstream. If no file is free, Envoy answers 503, and its TCP proxy
// crashes (seen with 1.40).
func connections(files uint64) int64 {
	if files >= 2*mostConnections+reservedFiles {
		return mostConnections
	}
	return max(leastConnections, (int64(files)-reservedFiles)/2)
}

// openFiles returns the hard limit, to which Envoy raises its own limit, or 0 if it is unknown.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return limit.Max
}
