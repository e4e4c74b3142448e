package socket

import (
	"net"
	"time"
)

// Listener returns l with connections of this package. The kernel ends one on which what was sent
// is not acknowledged in some time; 0: as usual.
func Listener(l net.Listener, unacknowledged time.Duration) net.Listener {
	return listener{l, unacknowledged}
}

type listener struct {
	net.Listener
	unacknowledged time.Duration
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return wrap(accepted, l.unacknowledged), nil
}

// Conn returns c as a connection of this package. c is not to be used beside it.
func Conn(c net.Conn) net.Conn { return wrap(c, 0) }

func wrap(c net.Conn, unacknowledged time.Duration) net.Conn {
	of, ok := c.(connection)
	if !ok {
		return c
	}
	wrapped, err := newConn(of, unacknowledged)
	if err != nil { // it has ended
		return c
	}
	return wrapped
}
