package socket_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"github.com/penstock-project/penstock/picker/socket"
)

func pipe(t testing.TB) (accepted, dialled net.Conn) { return pipeOver(t, "tcp", "127.0.0.1:0") }

func pipeOver(t testing.TB, network, address string) (accepted, dialled net.Conn) {
	t.Helper()
	plain, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	l := socket.Listener(plain, 2*time.Second)
	defer func() { _ = l.Close() }()
	if dialled, err = net.Dial(network, l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if accepted, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = accepted.Close(), dialled.Close() })
	return accepted, socket.Conn(dialled)
}

func TestConn_BehavesAsTheStandardLibrarysDoes(t *testing.T) {
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		t.Run(network, func(t *testing.T) {
			nettest.TestConn(t, func() (a, b net.Conn, stop func(), err error) {
				a, b = pipeOver(t, network, address)
				return a, b, func() { _, _ = a.Close(), b.Close() }, nil
			})
		})
	}
}

func TestConn_LargeBodiesArriveWhole(t *testing.T) {
	a, b := pipe(t)
	sent := make([]byte, 5<<20+7)
	_, _ = rand.Read(sent)
	go func() {
		_, _ = a.Write(sent)
		_ = a.Close()
	}()
	got, err := io.ReadAll(b)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes of %d arrived, %v; want all, unchanged", len(got), len(sent), err)
	}
}

func TestConn_ErrorsStateWhatHasHappened(t *testing.T) {
	a, b := pipe(t)
	_ = a.SetReadDeadline(time.Now().Add(-time.Second))
	var timeout net.Error
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) ||
		!timeout.Timeout() {
		t.Errorf("after the deadline: got %v, want a timeout", err)
	}
	_ = a.SetReadDeadline(time.Time{})
	if n, err := a.Read(nil); n != 0 || err != nil {
		t.Errorf("a read of nothing: %d, %v, want 0", n, err)
	}
	raw, err := b.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
	})
	_ = b.Close()
	var op *net.OpError
	if _, err := a.Read(make([]byte, 1)); !errors.As(err, &op) || op.Op != "read" || op.Addr == nil {
		t.Errorf("of a connection that was reset: got %v, want an error of read with the address", err)
	}
	_ = a.Close()
	if _, err := a.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("of a closed one: %v, want %v", err, net.ErrClosed)
	}
}
