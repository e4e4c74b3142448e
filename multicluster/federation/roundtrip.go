package federation

import (
	"context"
	"maps"
	"net"
	"sync"
	"time"
)

type connections struct {
	mu       sync.Mutex
	byMember map[string]*net.TCPConn
}

func (c *connections) dial(ctx context.Context, member, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if tcp, ok := conn.(*net.TCPConn); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.byMember[member] = tcp
	}
	return conn, err
}

func (c *connections) roundTrip(address string) (d time.Duration) {
	c.mu.Lock()
	conn := c.byMember[address]
	c.mu.Unlock()
	if conn == nil {
		return 0
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { d = measured(int(fd)) })
	return d
}

func (c *connections) keep(stays func(address string) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.byMember, func(address string, _ *net.TCPConn) bool { return !stays(address) })
}
