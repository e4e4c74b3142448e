package socket

import (
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/mem"
)

type counted struct{ used int }

func (p *counted) Get(n int) *[]byte {
	p.used++
	b := make([]byte, n)
	return &b
}

func (p *counted) Put(*[]byte) { p.used-- }

func connected(t *testing.T) (accepted *conn, dialled net.Conn) {
	t.Helper()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Listener(plain, 2*time.Second)
	defer func() { _ = l.Close() }()
	if dialled, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	got, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = got.Close(), dialled.Close() })
	return got.(*conn), dialled
}

func TestConn_HoldsNoBufferWhileItWaits(t *testing.T) {
	a, b := connected(t)
	var pool counted
	var reads interface {
		ReadOnReady(int, mem.BufferPool) (*[]byte, int, error)
	} = a // gRPC looks for the same interface
	_ = a.SetReadDeadline(time.Now().Add(-time.Second))
	if _, _, err := reads.ReadOnReady(10, &pool); err == nil || pool.used != 0 {
		t.Errorf("after the deadline: got %v, %d buffers in use; want an error, and none", err, pool.used)
	}
	_ = a.SetReadDeadline(time.Time{})
	_, _ = b.Write([]byte("hello"))
	buffer, n, err := reads.ReadOnReady(10, &pool)
	if err != nil || pool.used != 1 || string((*buffer)[:n]) != "hello" {
		t.Fatalf("got %d bytes, %v, %d buffers in use; want hello in one", n, err, pool.used)
	}
	pool.Put(buffer)
	_ = b.Close()
	if _, _, err := reads.ReadOnReady(10, &pool); err != io.EOF || pool.used != 0 {
		t.Errorf("at the end: %v, %d buffers in use, want %v and 0", err, pool.used, io.EOF)
	}
}

func TestConn_EndsWhereNothingIsAcknowledged(t *testing.T) {
	a, _ := connected(t)
	var got int
	if err := a.raw.Control(func(fd uintptr) {
		got,
			_ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	}); err != nil || got != 2000 {
		t.Errorf("TCP_USER_TIMEOUT is %d, %v, want 2000", got, err)
	}
}

func TestConn_NoCallAllocates(t *testing.T) {
	a, b := connected(t)
	there, back := []byte("x"), make([]byte, 1)
	if n := testing.AllocsPerRun(100, func() {
		_, _ = a.Write(there)
		_, _ = b.Read(back)
		_, _ = b.Write(back)
		_, _ = a.Read(back)
	}); n > 0 {
		t.Errorf("%.0f allocations, want 0", n)
	}
}
