package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestPeer_WithoutCertificateIsDenied(t *testing.T) {
	one, two := peerCertificate(t), peerCertificate(t)
	flags := func(ca, cert string) *peerFlags {
		return &peerFlags{listen: "127.0.0.1:0", ca: filepath.Join(ca, "cert"), cert: filepath.Join(cert, "cert"),
			key: filepath.Join(cert, "key")}
	}
	ours, err := flags(one, one).config(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Listener.Close()
	theirs, err := flags(one, two).mutual(nil)
	if err != nil {
		t.Fatal(err)
	}
	dial := func(client *tls.Config) error {
		served := make(chan error, 1)
		go func() {
			conn, err := ours.Listener.Accept()
			if err == nil {
				_, err = tls.Server(conn, ours.TLS.Server).Write([]byte("hello"))
				_ = conn.Close()
			}
			served <- err
		}()
		conn, err := net.Dial("tcp", ours.Listener.Addr().String())
		if err != nil {
			return err
		}
		defer conn.Close()
		client = client.Clone()
		client.ServerName = "127.0.0.1"
		_, err = tls.Client(conn, client).Read(make([]byte, 5))
		return errors.Join(err, <-served)
	}
	if err := dial(ours.TLS.Client); err != nil {
		t.Errorf("a peer with a certificate is denied: %v", err)
	}
	if dial(theirs.Client) == nil || dial(&tls.Config{InsecureSkipVerify: true}) == nil {
		t.Error("a client without a certificate is served")
	}
	for _, half := range []*peerFlags{{ca: "a", cert: "b", key: "c"}, {listen: "127.0.0.1:0", ca: "a"},
		flags(t.TempDir(), one)} {
		if _, err := half.config(t.Context(), nil); err == nil {
			t.Errorf("%+v is taken, want an error", half)
		}
	}
}

func peerCertificate(t *testing.T) (dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:        true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{
			x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth,
		},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for name, block := range map[string]*pem.Block{
		"cert": {Type: "CERTIFICATE", Bytes: cert}, "key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
