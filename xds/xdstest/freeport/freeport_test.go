package freeport_test

import (
	"net"
	"testing"

	"github.com/penstock-project/penstock/xds/xdstest/freeport"
)

func TestListen_PortsThatAreHeldDiffer(t *testing.T) {
	held := map[int]bool{}
	for range 500 {
		l, err := freeport.Listen()
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		port := l.Addr().(*net.TCPAddr).Port
		if held[port] || port < 10000 || port >= 30000 {
			t.Fatalf("port %d: want one from 10000 to 29999 that is not held", port)
		}
		held[port] = true
	}
}

func TestFind_PortIsFree(t *testing.T) {
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestFind_ChosenPortsDiffer(t *testing.T) {
	chosen := map[int]bool{}
	for range 150 {
		port, err := freeport.Find()
		if err != nil || chosen[port] {
			t.Fatalf("port %d, error %v: want a port that was not chosen before", port, err)
		}
		chosen[port] = true
	}
}
