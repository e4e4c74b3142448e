package attacks

import (
	"context"
	"errors"
	"net"
	"time"
)

// Idle opens connections that send nothing. The caller closes them.
func Idle(ctx context.Context, from net.Dialer, address string, connections int) (conns []net.Conn, err error) {
	for range connections {
		c, err := from.DialContext(ctx, "tcp", address)
		if err != nil {
			return conns, err
		}
		conns = append(conns, c)
	}
	return conns, nil
}

// Open counts the connections that the server has not closed.
func Open(conns []net.Conn) (n int) {
	for _, c := range conns {
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond)) // on a closed connection, Read fails, too
		_, err := c.Read(make([]byte, 1))
		var e net.Error
		if errors.As(err, &e) && e.Timeout() {
			n++
		}
	}
	return n
}
