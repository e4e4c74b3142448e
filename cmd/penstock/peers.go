package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/xds/admission/ports"
	"github.com/penstock-project/penstock/xds/identity"
)

type peerFlags struct {
	addresses     []string
	listen        string
	ca, cert, key string
}

func (o *peerFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&o.addresses, "peers", nil,
		"addresses of all penstock processes for the same Envoys, as HOST:PORT of their --peers-listen, or as "+
			"unix:PATH of the socket at which each serves ADS; the process skips its own (default: none)")
	f.StringVar(&o.listen, "peers-listen", "", "address on which peers are served, as HOST:PORT, which requires "+
		"--peers-cert, or unix:PATH (default: the socket of --xds)")
	f.StringVar(&o.ca, "peers-ca", "", "file with the CA certificates that verify peers: a client without a valid "+
		"certificate is denied. Requires --peers-listen, --peers-cert and --peers-key (default: none, and peers are "+
		"served at a socket that only this user opens; with --penstock-image, certificates that penstock issues)")
	f.StringVar(&o.cert, "peers-cert", "", "file with this process's certificate for client and server "+
		"authentication, valid for the hosts of --peers; read again for each connection (default: none)")
	f.StringVar(&o.key, "peers-key", "", "file with the private key of --peers-cert (default: none)")
}

func (o *peerFlags) config(ctx context.Context, disk *filesystem.Disk) (out app.Peers, err error) {
	out.Addresses = o.addresses
	if given := o.ca != "" || o.cert != "" || o.key != ""; given {
		if o.ca == "" || o.cert == "" || o.key == "" || o.listen == "" {
			return out, errors.New("--peers-ca, --peers-cert and --peers-key require each other and --peers-listen: " +
				"Envoys, which have no such certificate, use the port of --xds")
		}
		if out.TLS, err = o.mutual(disk); err != nil {
			return out, err
		}
	}
	if o.listen != "" {
		out.Listener, err = listen(ctx, nil, ports.Peers, "--peers-listen", o.listen)
	}
	return out, err
}

// authenticated returns an error for TCP without TLS, because every user of the machine can
// connect.
func authenticated(p app.Peers) error {
	const credentials = "--peers-ca, --peers-cert and --peers-key"
	if p.TLS != nil {
		return nil
	}
	if p.Listener != nil && p.Listener.Addr().Network() != "unix" {
		return fmt.Errorf("--peers-listen %s is no socket, and every client that reaches it could publish as a peer: "+
			"write unix:PATH, or add %s", p.Listener.Addr(), credentials)
	}
	for _, a := range p.Addresses {
		if !strings.HasPrefix(a, unixPrefix) {
			return fmt.Errorf("--peers %s is no socket: write unix:PATH, as the peer's --peers-listen or --xds, "+
				"or add --peers-listen, %s", a, credentials)
		}
	}
	return nil
}

func (o *peerFlags) mutual(disk *filesystem.Disk) (*app.MutualTLS, error) {
	authorities, err := identity.Pool(disk, o.ca)
	if err != nil {
		return nil, fmt.Errorf("--peers-ca: %w", err)
	}
	pair := func() (*tls.Certificate, error) {
		c, err := disk.KeyPair(o.cert, o.key)
		if err != nil {
			return nil, fmt.Errorf("--peers-cert, --peers-key: %w", err)
		}
		return c, nil
	}
	if _, err := pair(); err != nil {
		return nil, err
	}
	return &app.MutualTLS{
		Server: &tls.Config{
			MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authorities,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair() },
			VerifyConnection: func(s tls.ConnectionState) error {
				if !serves(s.PeerCertificates[0]) {
					return errors.New("the certificate is not for server authentication: it is not a peer's")
				}
				return nil
			},
		},
		Client: &tls.Config{
			MinVersion: tls.VersionTLS13, RootCAs: authorities,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair() },
		},
	}, nil
}

// serves reports whether a certificate is valid for servers. Envoys' certificates are for clients
// alone.
func serves(c *x509.Certificate) bool {
	for _, u := range c.ExtKeyUsage {
		if u == x509.ExtKeyUsageServerAuth || u == x509.ExtKeyUsageAny {
			return true
		}
	}
	return len(c.ExtKeyUsage) == 0 && len(c.UnknownExtKeyUsage) == 0
}
