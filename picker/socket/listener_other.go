//go:build !linux

package socket

import (
	"net"
	"time"
)

// Listener returns l.
func Listener(l net.Listener, _ time.Duration) net.Listener { return l }

// Conn returns c.
func Conn(c net.Conn) net.Conn { return c }
