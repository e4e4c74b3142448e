package supervisor

import "syscall"

const (
	mostConnections  = 50_000
	reservedFiles    = 4096
	leastConnections = 256
)

// A connection may need a second open file, for its connection to a server. If no file is free,
// Envoy answers 503, and its TCP proxy crashes (seen with 1.40).
func connections(files uint64) int64 {
	if files >= 2*mostConnections+reservedFiles {
		return mostConnections
	}
	return max(leastConnections, (int64(files)-reservedFiles)/2)
}

// Envoy raises its limit of open files to this hard limit.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return limit.Max
}
