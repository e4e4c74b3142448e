package federation

import (
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"
)

// A handshake costs a millisecond, and without members none can succeed.
func TestIdentity_WithoutMembersNoHandshakeBegins(t *testing.T) {
	a := newAuthority(t)
	member := Member{Name: "west", Address: "west", Bundle: a.bundle}
	shown := false
	own := a.issue(t, "spiffe://east/penstock")
	east := newTrust(func() (*tls.Certificate, error) {
		shown = true
		return own()
	}, time.Now)
	west := newTrust(a.issue(t, "spiffe://west/penstock"), time.Now)
	west.set([]Member{{Name: "east", Address: "east", Bundle: a.bundle}})
	connect := func() error {
		client, server := net.Pipe()
		defer func() { _ = client.Close() }()
		go func() { // ends with the connection
			_ = tls.Client(client, west.client("east")).Handshake()
			_ = client.Close()
		}()
		defer func() { _ = server.Close() }()
		return tls.Server(server, east.server()).Handshake()
	}
	if err := connect(); !errors.Is(err, errNoMembers) || shown {
		t.Errorf("without members: %v, the certificate is shown: %t", err, shown)
	}
	east.set([]Member{member})
	if err := connect(); err != nil || !shown {
		t.Errorf("with the member: %v, the certificate is shown: %t", err, shown)
	}
	east.set(nil)
	if err := connect(); !errors.Is(err, errNoMembers) {
		t.Errorf("after the last member left: %v", err)
	}
}
