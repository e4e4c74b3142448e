package socket

import (
	"net"
	"time"
)

// Listener returns a listener that wraps each connection of l (Conn). The kernel ends a TCP
// connection whose data remains unacknowledged for this duration; 0 means the system's default.
func Listener(l net.Listener, unacknowledged time.Duration) net.Listener {
	return listener{l, unacknowledged}
}

type listener struct {
	net.Listener
	unacknowledged time.Duration
}

func (l listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return wrap(accepted, l.unacknowledged), nil
}

// Conn returns a connection that reads and writes c as this package does. The caller must not use c
// afterwards.
func Conn(c net.Conn) net.Conn { return wrap(c, 0) }

func wrap(c net.Conn, unacknowledged time.Duration) net.Conn {
	tcp, ok := c.(connection)
	if !ok {
		return c
	}
	wrapped, err := newConn(tcp, unacknowledged)
	if err != nil { // the connection has ended
		return c
	}
	return wrapped
}
