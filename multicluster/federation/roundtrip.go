package federation

import (
	"context"
	"net"
	"sync"
	"time"
)

// connections are those to members, by the address of the member. The system measures the round
// trip of each.
type connections struct {
	mu sync.Mutex
	of map[string]*net.TCPConn
}

// dial connects to an address of a member.
func (c *connections) dial(ctx context.Context, member, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if tcp, ok := conn.(*net.TCPConn); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.of == nil {
			c.of = map[string]*net.TCPConn{}
		}
		c.of[member] = tcp
	}
	return conn, err
}

// roundTrip returns the least round trip that was measured lately; 0 without a connection.
func (c *connections) roundTrip(address string) (d time.Duration) {
	c.mu.Lock()
	conn := c.of[address]
	c.mu.Unlock()
	if conn == nil {
		return 0
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { d = measured(int(fd)) }) // fails if it is closed
	return d
}

// keep forgets the connections to addresses that are no member's.
func (c *connections) keep(is func(address string) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for address := range c.of {
		if !is(address) {
			delete(c.of, address)
		}
	}
}
