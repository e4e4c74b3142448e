package channel

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// certificates issues the certificates of two processes, by a clock that tests set. Each TLS
// handshake gets a new certificate.
type certificates struct {
	t          *testing.T
	past       atomic.Int64 // how far the certificates' clock is ahead
	handshakes atomic.Int32
}

func (c *certificates) now() time.Time { return time.Now().Add(time.Duration(c.past.Load())) }

// issue returns a certificate that expires after the duration life.
func (c *certificates) issue(life time.Duration) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: c.now().Add(-time.Minute),
		NotAfter: c.now().Add(life), DNSNames: []string{"peer"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

func (c *certificates) server(life time.Duration) credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert, Time: c.now,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			c.handshakes.Add(1)
			return c.issue(life)
		},
	})
}

func (c *certificates) client(life time.Duration) credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, Time: c.now, // accepts any signer
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.issue(life) },
	})
}

// secured runs a process with TLS.
func (c *certificates) secured(life, clientLife time.Duration, peers ...string) *process {
	c.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	p := &process{t: c.t, address: l.Addr().String(), received: map[string]string{}}
	p.Channel = New(Config{Peers: peers, Credentials: c.client(clientLife), AckTimeout: time.Minute,
		GracePeriod: time.Minute, Now: c.now})
	p.expiryCheck = time.Millisecond
	p.topic = p.Topic("things")
	p.topic.Subscribe(p.receive)
	s := grpc.NewServer(grpc.Creds(c.server(life)))
	p.Register(s)
	go func() { _ = s.Serve(l) }()
	ctx, cancel := context.WithCancel(c.t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = p.Run(ctx) })
	c.t.Cleanup(func() {
		cancel()
		s.Stop()
		running.Wait()
	})
	return p
}

// A stream ends when the certificate of either end expires, so a stolen key is useful only for a
// limited time. A process that renews its certificate reconnects, and loses no items.
func TestPeers_StreamEndsWithCertificateAndItsSuccessorOpensAnother(t *testing.T) {
	for name, life := range map[string]struct{ server, client time.Duration }{
		"of the publisher":  {time.Hour, 1000 * time.Hour},
		"of the subscriber": {1000 * time.Hour, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			c := &certificates{t: t}
			a := c.secured(life.server, time.Hour)
			a.topic.Publish(Item{Key: "before"})
			b := c.secured(time.Hour, life.client, a.address)
			if err := b.Synced(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := c.handshakes.Load(); n != 1 {
				t.Fatalf("%d handshakes, want 1", n)
			}
			c.past.Store(int64(2 * time.Hour))
			eventually(t, "the peer connects again", func() bool { return c.handshakes.Load() > 1 },
				func() string { return "" })
			a.topic.Publish(Item{Key: "after"})
			from := " for false from " + a.address
			b.wait("items arrive on the new connection", map[string]string{"before": from, "after": from})
		})
	}
}

// The publisher ends the stream even if the subscriber does not.
func TestPeers_ExpiredCertificateReceivesNothing(t *testing.T) {
	c := &certificates{t: t}
	a := c.secured(1000*time.Hour, time.Hour)
	a.topic.Publish(Item{Key: "x"})
	conn, err := grpc.NewClient(a.address, grpc.WithTransportCredentials(c.client(time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	subscribe := func() error {
		raw, err := conn.NewStream(ctx, &stream, method)
		if err != nil {
			return err
		}
		s := &clientStream{ClientStream: raw}
		// If the stream has ended, Send returns io.EOF, and Recv returns the status.
		if err := s.Send(&request{TypeUrl: "things"}); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if _, err = s.Recv(); err != nil {
			return err
		}
		c.past.Store(int64(2 * time.Hour))
		if _, err = s.Recv(); err == nil {
			return errors.New("a second response")
		}
		return err
	}
	for i := range 2 { // the second stream uses the same connection
		if err := subscribe(); status.Code(err) != codes.Unauthenticated {
			t.Errorf("stream %d ended with %v, want Unauthenticated", i+1, err)
		}
	}
}
