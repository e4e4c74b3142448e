package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
)

// peerFlags are how serve finds and knows the other processes for the same Envoys.
type peerFlags struct {
	addresses     []string
	listen        string
	ca, cert, key string
}

func (o *peerFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&o.addresses, "peers", nil, "HOST:PORT of --xds, or of --peers-listen, of the other penstock processes for the same Envoys (its own is left out); each lists all")
	f.StringVar(&o.listen, "peers-listen", "", "address to serve other penstock processes on (default: that of --xds)")
	f.StringVar(&o.ca, "peers-ca", "", "file with the authorities of the processes' certificates: who has none is not told anything, and not believed. It needs --peers-listen, --peers-cert and --peers-key (default: whoever reaches the port is told; with --penstock-image, certificates that penstock makes)")
	f.StringVar(&o.cert, "peers-cert", "", "file with this process's certificate, for clients and servers, with the hosts of --peers; it is read again for each connection")
	f.StringVar(&o.key, "peers-key", "", "file with its key")
}

func (o *peerFlags) config(ctx context.Context) (out app.Peers, err error) {
	out.Addresses = o.addresses
	if given := o.ca != "" || o.cert != "" || o.key != ""; given {
		if o.ca == "" || o.cert == "" || o.key == "" || o.listen == "" {
			return out, errors.New("--peers-ca, --peers-cert and --peers-key need each other, and --peers-listen: Envoys, which have no such certificate, use the port of --xds")
		}
		if out.TLS, err = o.mutual(); err != nil {
			return out, err
		}
	}
	if o.listen != "" {
		out.Listener, err = listen(ctx, "--peers-listen", o.listen)
	}
	return out, err
}

// mutual is TLS in which both sides show a certificate.
func (o *peerFlags) mutual() (*app.MutualTLS, error) {
	raw, err := os.ReadFile(o.ca)
	if err != nil {
		return nil, fmt.Errorf("--peers-ca: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("--peers-ca %s: no certificate in PEM", o.ca)
	}
	pair := func() (*tls.Certificate, error) {
		c, err := tls.LoadX509KeyPair(o.cert, o.key)
		if err != nil {
			return nil, fmt.Errorf("--peers-cert: %w", err)
		}
		return &c, nil
	}
	if _, err := pair(); err != nil {
		return nil, err
	}
	return &app.MutualTLS{
		Server: &tls.Config{
			MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authorities,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair() },
		},
		Client: &tls.Config{
			MinVersion: tls.VersionTLS13, RootCAs: authorities,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair() },
		},
	}, nil
}
