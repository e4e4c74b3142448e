package supervisor

import (
	"net"
	"testing"
	"time"
)

func TestSupervisor_WaitsUntilAddressAcceptsConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if url := "http://" + l.Addr().String(); !waitOpen(t.Context(), url, time.Minute) {
		t.Errorf("%s is not open, although a process listens", url)
	}
	_ = l.Close()
	if url := "https://" + l.Addr().String(); waitOpen(t.Context(), url, 20*time.Millisecond) {
		t.Errorf("%s is open, although no process listens", url)
	}
}
