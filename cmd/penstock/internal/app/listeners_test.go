package app

import (
	"io"
	"net"
	"testing"
)

func TestListener_ConnectionsDuringTheFirstReadAreClosed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	stop := turnAway(l, nil)
	for range 3 {
		if _, err := dial().Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("while files are read: %v, want %v", err, io.EOF)
		}
	}
	stop()
	client := dial()
	served, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = served.Close() }()
	if _, err := served.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if n, err := client.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("a read afterwards: got %d bytes, %v, want 1", n, err)
	}
}
