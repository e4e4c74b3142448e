package ports

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestSockets_ListenersAndWaitingConnectionsOutliveTheirProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	before := NewSockets(nil)
	listen := func(s *Sockets) (all []net.Listener) {
		t.Helper()
		for _, l := range []struct{ network, address string }{
			{"tcp", "127.0.0.1:0"}, {"tcp", "127.0.0.1:0"}, {"unix", path},
		} {
			opened, err := s.Listen(t.Context(), Picker, l.network, l.address)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, opened)
		}
		return all
	}
	first := listen(before)
	gone, err := before.Listen(t.Context(), Pages, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := before.Keep()
	if err != nil {
		t.Fatal(err)
	}
	waiting := make([]net.Conn, len(first))
	for i, l := range append(first, gone) {
		if i < len(first) {
			if waiting[i], err = net.Dial(l.Addr().Network(), l.Addr().String()); err != nil {
				t.Fatal(err)
			}
			defer waiting[i].Close()
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}

	next := NewSockets(kept)
	if !next.Has(Picker, "unix", path) || next.Has(Local, "unix", path) {
		t.Error("Has: got another answer, want the socket of Picker alone")
	}
	for i, l := range listen(next) {
		if got, want := l.Addr().String(), first[i].Addr().String(); got != want {
			t.Errorf("listener %d: got %s, want %s", i, got, want)
		}
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = accepted.Close()
		if _, err := io.ReadAll(waiting[i]); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	next.Drop()
	if c, err := net.Dial("tcp", gone.Addr().String()); err == nil {
		_ = c.Close()
		t.Errorf("%s: got a connection, want a closed listener", gone.Addr())
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket after its last listener: got %v, want no file", err)
	}
}
