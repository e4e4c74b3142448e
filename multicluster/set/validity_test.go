package set

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/authority"
)

// controlPlane is the part of a cluster that issues certificates for members. A test may stop it,
// and restart it from its state.
type controlPlane struct {
	t     *testing.T
	name  string
	state string
	*authority.Authority
	stop func()
}

func startControlPlane(t *testing.T, name, state string) *controlPlane {
	t.Helper()
	c := &controlPlane{t: t, name: name, state: state,
		Authority: newAuthority(name, OnDisk(state).Authority(), authority.Config{})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Run(ctx) }()
	c.stop = func() { cancel(); <-done }
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

// gateway returns the certificate of the cluster's Gateways.
func (c *controlPlane) gateway() authority.Certificate {
	c.t.Helper()
	id, err := url.Parse(model.GatewayURI(c.name))
	if err != nil {
		c.t.Fatal(err)
	}
	cert, err := c.Certify(id)
	if err != nil {
		c.t.Fatal(err)
	}
	return cert
}

// presented is a cluster's certificate, with the bundle by which the other cluster verifies it.
type presented struct {
	tls.Certificate
	bundle []byte
}

func (c *controlPlane) presents(cert authority.Certificate) presented {
	c.t.Helper()
	pair, err := tls.X509KeyPair(cert.Cert, cert.Key)
	if err != nil {
		c.t.Fatal(err)
	}
	return presented{pair, c.Bundle()}
}

func (c *controlPlane) process() presented {
	c.t.Helper()
	cert, err := c.GetCertificate(nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return presented{*cert, c.Bundle()}
}

// connect makes a handshake in which both clusters verify each other.
func connect(client, server presented) error {
	verify := func(peer presented, usage x509.ExtKeyUsage) func(tls.ConnectionState) error {
		return func(s tls.ConnectionState) error {
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(peer.bundle)
			_, err := s.PeerCertificates[0].Verify(
				x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}})
			return err
		}
	}
	here, there := net.Pipe()
	defer here.Close()
	failed := make(chan error, 1)
	go func() {
		defer there.Close()
		failed <- tls.Server(there, &tls.Config{
			Certificates: []tls.Certificate{server.Certificate}, ClientAuth: tls.RequireAnyClientCert,
			VerifyConnection: verify(client, x509.ExtKeyUsageClientAuth), SessionTicketsDisabled: true,
		}).Handshake()
	}()
	err := tls.Client(here, &tls.Config{
		Certificates: []tls.Certificate{client.Certificate}, InsecureSkipVerify: true,
		VerifyConnection: verify(server, x509.ExtKeyUsageServerAuth),
	}).Handshake()
	_ = here.Close()
	return errors.Join(err, <-failed)
}

// While the control planes of two clusters are stopped for six days, the Gateways of both clusters
// can still connect to each other. After the restart, the control planes can connect, too. A stolen
// certificate expires after a week.
func TestClusterSet_ControlPlaneStoppedForSixDaysLosesNoConnection(t *testing.T) {
	east, west := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		a, b := startControlPlane(t, "east", east), startControlPlane(t, "west", west)
		ofA, ofB := a.gateway(), b.gateway()
		time.Sleep(16*time.Hour - time.Minute) // almost the maximum age of a certificate in use
		if !a.Current(ofA) || !b.Current(ofB) {
			t.Error("the certificate of Gateways is replaced too early for this test")
		}
		gateways := []presented{a.presents(ofA), b.presents(ofB)}
		processes := []presented{a.process(), b.process()}
		for _, p := range append(gateways, processes...) {
			leaf, err := x509.ParseCertificate(p.Certificate.Certificate[0])
			if err != nil {
				t.Fatal(err)
			}
			if left := time.Until(leaf.NotAfter); left > 7*24*time.Hour {
				t.Errorf("a certificate for members is valid for %v more, want at most %v", left, 7*24*time.Hour)
			}
			if behind := time.Since(leaf.NotBefore); behind < 48*time.Hour {
				t.Errorf("a member whose clock is %v behind denies a certificate, want at least %v",
					behind, 48*time.Hour)
			}
		}
		a.stop()
		b.stop()
		time.Sleep(6 * 24 * time.Hour)
		for _, pair := range [][]presented{gateways, processes} {
			if err := errors.Join(connect(pair[0], pair[1]), connect(pair[1], pair[0])); err != nil {
				t.Errorf("after six days without control planes: %v", err)
			}
		}

		a, b = startControlPlane(t, "east", east), startControlPlane(t, "west", west)
		defer func() { a.stop(); b.stop() }()
		for what, pair := range map[string][2]presented{
			"processes": {a.process(), b.process()}, "Gateways": {a.presents(a.gateway()), b.presents(b.gateway())},
			"a Gateway that has its certificate still": {gateways[0], b.presents(b.gateway())},
		} {
			if err := errors.Join(connect(pair[0], pair[1]), connect(pair[1], pair[0])); err != nil {
				t.Errorf("%s, with control planes again: %v", what, err)
			}
		}
		time.Sleep(24 * time.Hour)
		if a.Current(ofA) {
			t.Error("the certificate of Gateways is not replaced")
		}
		for what, shown := range map[string]presented{"a Gateway": gateways[0], "a process": processes[0]} {
			if connect(shown, b.process()) == nil {
				t.Errorf("the certificate of %s is good after a week, want it rejected", what)
			}
		}
		if err := connect(a.process(), b.process()); err != nil {
			t.Errorf("a day later: %v", err)
		}
	})
}

// A process renews its certificates by the wall clock, because the monotonic clock stops while a
// machine sleeps.
func TestClusterSet_CertificatesRenewAfterAMachineHasSlept(t *testing.T) {
	state := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var shift atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }
		a := newAuthority("east", OnDisk(state).Authority(), authority.Config{Now: now})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = a.Run(ctx) }()
		defer func() { stop(); <-done }()
		if err := a.Ready(ctx); err != nil {
			t.Fatal(err)
		}
		gateway, err := a.Certify(&url.URL{Scheme: "spiffe", Host: "east", Path: "/gateway"})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		shift.Store(int64(10 * 24 * time.Hour))
		time.Sleep(time.Minute)
		cert, err := a.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		if now().After(cert.Leaf.NotAfter) || a.Current(gateway) {
			t.Errorf("at %v the process presents a certificate until %v; Gateways keep theirs: %t, want one in "+
				"force, and false", now(), cert.Leaf.NotAfter, a.Current(gateway))
		}
	})
}
