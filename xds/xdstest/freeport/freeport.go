package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

const (
	lowest = 10000
	count  = 20000
)

// Find returns a port of 127.0.0.1 without a listener. It fails if 100 random ports are taken.
func Find() (int, error) {
	l, err := Listen()
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// Listen is like Find, but holds the port until the caller closes the listener.
func Listen() (net.Listener, error) {
	for range 100 {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", lowest+rand.IntN(count))); err == nil {
			return l, nil
		}
	}
	return nil, errors.New("no free port: 100 ports of 127.0.0.1 in a row are taken")
}

// Free reports whether no process listens on a port of 127.0.0.1.
func Free(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	return err == nil && l.Close() == nil
}
