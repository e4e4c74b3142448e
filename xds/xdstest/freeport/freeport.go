package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// The range of the ports: Linux's own ports of connections begin at 32768, macOS's at 49152.
const (
	lowest = 10000
	count  = 20000
)

// Find returns a port of 127.0.0.1 that no process listens at. It fails only if 100 ports in a row
// are taken.
func Find() (int, error) {
	l, err := Listen()
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// Listen is as Find, and holds the port until the caller closes the listener: listeners that are
// open at the same time have different ports.
func Listen() (net.Listener, error) {
	for range 100 {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", lowest+rand.IntN(count))); err == nil {
			return l, nil
		}
	}
	return nil, errors.New("no free port: 100 ports of 127.0.0.1 in a row are taken")
}
