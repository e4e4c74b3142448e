package authority_test

import (
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/penstock-project/penstock/xds/authority"
)

func TestCertificate_ProcessesOfOneInstallationAuthenticate(t *testing.T) {
	secrets := &secret{}
	a, b, stranger := start(t, secrets, time.Minute), start(t, secrets, time.Minute), start(t, &secret{}, time.Minute)
	for _, x := range []*authority.Authority{a, b, stranger} {
		if err := x.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	const name = "penstock.system.svc"
	serve, dial := a.Mutual(name)
	_, other := b.Mutual(name)
	serveStrange, dialStrange := stranger.Mutual(name)
	anonymous := other.Clone()
	anonymous.GetClientCertificate = nil
	_, elsewhere := b.Mutual("other.system.svc")
	for _, c := range []struct {
		who            string
		server, client *tls.Config
		ok             bool
	}{
		{"another process", serve, other, true},
		{"itself", serve, dial, true},
		{"a client without a certificate", serve, anonymous, false},
		{"a process of another installation", serve, dialStrange, false},
		{"a server of another installation", serveStrange, dial, false},
		{"a server of another name", serve, elsewhere, false},
	} {
		if err := shake(c.server, c.client); (err == nil) != c.ok {
			t.Errorf("%s: got %v, want a connection: %t", c.who, err, c.ok)
		}
	}
}

func shake(server, client *tls.Config) error {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	served := make(chan error, 1)
	go func() {
		s := tls.Server(far, server)
		err := s.Handshake()
		if err == nil {
			_, err = s.Write([]byte("hello"))
		}
		_ = far.Close()
		served <- err
	}()
	c := tls.Client(near, client)
	_, err := c.Read(make([]byte, 5)) // in TLS 1.3, a client reads a rejection only now
	_ = near.Close()
	return errors.Join(err, <-served)
}
