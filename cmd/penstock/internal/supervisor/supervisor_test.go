package supervisor

import (
	"net"
	"testing"
	"time"
)

func TestAnAddressIsOpenWhenItTakesConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if url := "http://" + l.Addr().String(); !open(t.Context(), url, time.Minute) {
		t.Errorf("%s is not open, although somebody listens", url)
	}
	_ = l.Close()
	if url := "https://" + l.Addr().String(); open(t.Context(), url, 20*time.Millisecond) {
		t.Errorf("%s is open, although nobody listens", url)
	}
}
