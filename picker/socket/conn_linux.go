package socket

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/mem"
)

// maxCall bounds the bytes of one system call, which then takes at most about 20 us.
const maxCall = 128 << 10

type connection interface {
	net.Conn
	syscall.Conn
	CloseRead() error
	CloseWrite() error
}

type conn struct {
	connection
	raw     syscall.RawConn
	ends    atomic.Bool
	in, out transfer
}

// transfer has the arguments and results of a connection's Read or Write calls, so that a call
// allocates no memory.
type transfer struct {
	mu    sync.Mutex // one call at a time
	try   func(fd uintptr) (done bool)
	bytes []byte // the caller's, or a buffer of pool
	n     int
	errno syscall.Errno

	pool   mem.BufferPool
	size   int
	buffer *[]byte
}

func newConn(c connection, unacknowledged time.Duration) (*conn, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	if _, tcp := c.(*net.TCPConn); tcp && unacknowledged > 0 {
		var failed error
		err := raw.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT,
				int(unacknowledged.Milliseconds()))
		})
		if err = errors.Join(err, os.NewSyscallError("setsockopt", failed)); err != nil {
			return nil, err
		}
	}
	out := &conn{connection: c, raw: raw}
	out.in.try, out.out.try = out.in.read, out.out.write
	return out, nil
}

func move(trap, fd uintptr, b []byte) (n int, errno syscall.Errno) {
	b = b[:min(len(b), maxCall)]
	for {
		moved, errno := call(trap, fd, b)
		switch errno {
		case syscall.EINTR:
		case 0:
			return moved, 0
		default:
			return 0, errno
		}
	}
}

// read makes one system call. After false, the poller calls read again when the socket has data.
func (t *transfer) read(fd uintptr) bool {
	if t.pool != nil {
		t.buffer = t.pool.Get(t.size)
		t.bytes = *t.buffer
	}
	t.n, t.errno = move(syscall.SYS_READ, fd, t.bytes)
	if t.errno != 0 && t.buffer != nil {
		t.pool.Put(t.buffer)
		t.buffer = nil
	}
	return t.errno != syscall.EAGAIN
}

// write writes the rest of the bytes. After false, the poller calls write again when the socket has
// room.
func (t *transfer) write(fd uintptr) bool {
	for t.n < len(t.bytes) {
		n, errno := move(syscall.SYS_WRITE, fd, t.bytes[t.n:])
		t.n += n
		if t.errno = errno; errno != 0 {
			return errno != syscall.EAGAIN
		}
	}
	return true
}

func (t *transfer) do(call func(func(uintptr) bool) error) error {
	t.n, t.errno = 0, 0
	return call(t.try)
}

func (t *transfer) end() {
	t.bytes, t.pool, t.buffer = nil, nil, nil
	t.mu.Unlock()
}

func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	t := &c.in
	t.mu.Lock()
	defer t.end()
	t.bytes = p
	if err := t.do(c.raw.Read); err != nil {
		return 0, err
	}
	return t.n, c.received(t)
}

// ReadOnReady waits for data before it takes a buffer from pool. So gRPC's idle connections hold no
// buffers.
func (c *conn) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	t := &c.in
	t.mu.Lock()
	defer t.end()
	t.size, t.pool = size, pool
	err := t.do(c.raw.Read)
	if err == nil {
		err = c.received(t)
	}
	if err != nil {
		if t.buffer != nil {
			pool.Put(t.buffer)
		}
		return nil, 0, err
	}
	return t.buffer, t.n, nil
}

func (c *conn) received(t *transfer) error {
	if t.errno == 0 && t.n == 0 {
		if c.ends.Load() {
			<-time.After(readTime)
		}
		return io.EOF
	}
	return c.failure("read", t.errno)
}

// readTime delays the end of a closed connection, so that gRPC handlers can read their last
// messages: gRPC drops unread messages when the connection ends.
const readTime = 20 * time.Millisecond

// CloseWrite closes this side of the connection. The client then closes the connection.
func (c *conn) CloseWrite() error {
	c.ends.Store(true)
	return c.connection.CloseWrite()
}

func (c *conn) Write(p []byte) (int, error) {
	t := &c.out
	t.mu.Lock()
	defer t.end()
	t.bytes = p
	if err := t.do(c.raw.Write); err != nil {
		return t.n, err
	}
	return t.n, c.failure("write", t.errno)
}

func (c *conn) failure(call string, errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return &net.OpError{Op: call, Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(),
		Err: os.NewSyscallError(call, errno)}
}
