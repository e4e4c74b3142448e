package attacks

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// Idle connections to the picker's port must not keep Gateways from the picker, or the control
// plane from Envoys, metrics and files. The process may open 400 files.
func TestPicker_IdleConnectionsLockOutNoGateway(t *testing.T) {
	s := prepare(t, nil)
	few := filepath.Join(s.dir, "few")
	if err := os.WriteFile(few, []byte("#!/bin/sh\nulimit -n 400\nexec "+binaries.penstock+" \"$@\"\n"),
		0o700); err != nil {
		t.Fatal(err)
	}
	serve, attach, _ := s.credentials()
	s.serveWith(few, serve...)
	s.attach(attach...)
	s.Eventually("the Gateway serves", func() error { return s.ask(http.MethodGet, "/v1/models", "") })
	traffic := s.traffic()
	for last := range byte(12) { // each address acts as another machine
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2+last)}}
		conns, err := Idle(t.Context(), from, local(s.picker), 60)
		for _, c := range conns {
			defer func() { _ = c.Close() }()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.adds() // Penstock reads the file, and an Envoy gets the route
	traffic.end()
	if err := s.penstock.Answers("http://" + local(s.http) + "/metrics"); err != nil {
		t.Error(err)
	}
	s.stop(s.envoy)
	s.attach(attach...)
	s.Eventually("an Envoy that has just started picks", func() error {
		return s.ask(http.MethodPost, "/v1/chat/completions",
			`{"model":"m","messages":[{"role":"user","content":"x"}]}`)
	})
}
