package main

import (
	"net"

	"github.com/penstock-project/penstock/conformance/bench/picks"
)

// serveEcho serves the cheapest possible external processor in this process, until stop is called.
// No figure includes the processor's CPU time.
func serveEcho() (port int, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, nil, err
	}
	server := picks.NewEcho()
	go func() { _ = server.Serve(l) }()
	return l.Addr().(*net.TCPAddr).Port, server.Stop, nil
}
