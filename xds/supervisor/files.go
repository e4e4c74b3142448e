package supervisor

import "syscall"

const (
	// mostConnections is the default of bootstrap.Config.MaxConnections.
	mostConnections = 50_000
	// reservedFiles are for sessions of datagrams, listeners, health checks, picks and logs.
	reservedFiles = 4096
	// leastConnections is the limit where there are few files.
	leastConnections = 256
)

// connections returns how many connections an Envoy with so many files takes at once. Each may need
// a second file, for its server. Without one, Envoy answers a request with 503, and its TCP proxy
// crashes (seen with 1.40).
func connections(files uint64) int64 {
	if files >= 2*mostConnections+reservedFiles {
		return mostConnections
	}
	return max(leastConnections, (int64(files)-reservedFiles)/2)
}

// openFiles is how many files a program that this process starts may open at most. Envoy raises its
// limit to this number. Zero: the number cannot be read.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return limit.Max
}
