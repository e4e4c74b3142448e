package dial

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Address is the address of one picker.
type Address struct {
	netip.AddrPort
	Cleartext bool
}

// TLS configures connections. The zero value accepts any certificate: many pickers have self-signed
// certificates.
type TLS struct {
	ServerName string  // SNI; "" for none
	Verify     *Verify // nil accepts any certificate
	// Certificate and Key, in PEM, authenticate the client; may be nil.
	Certificate, Key []byte
}

// Verify lists the requirements on a picker's TLS certificate.
type Verify struct {
	// Roots are the trusted CAs, in PEM; nil means the system's CAs. Roots without a certificate
	// make every connection fail.
	Roots []byte
	// SANs and URIs are subject alternative names. The certificate must have at least one of them.
	// A SAN that begins with "*." matches any first label.
	SANs, URIs []string
}

// Connect returns a connection that opens at its first call. The caller closes it.
func Connect(a Address, t TLS, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if !a.Cleartext {
		config, err := t.Config()
		if err != nil {
			return nil, err
		}
		creds = credentials.NewTLS(config)
	}
	return grpc.NewClient("passthrough:///"+a.String(),
		append(slices.Clip(options), grpc.WithTransportCredentials(creds))...)
}

// Config returns the TLS configuration of a client.
func (t TLS) Config() (*tls.Config, error) {
	// VerifyConnection verifies the server instead of the standard library.
	c := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}
	if t.Certificate != nil {
		pair, err := tls.X509KeyPair(t.Certificate, t.Key)
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if v := t.Verify; v != nil {
		var roots *x509.CertPool
		if v.Roots != nil {
			roots = x509.NewCertPool()
			roots.AppendCertsFromPEM(v.Roots)
		}
		c.VerifyConnection = func(s tls.ConnectionState) error { return v.check(s.PeerCertificates, roots) }
	}
	return c, nil
}

func (v *Verify) check(chain []*x509.Certificate, roots *x509.CertPool) error {
	if len(chain) == 0 {
		return errors.New("the server presents no certificate")
	}
	leaf, between := chain[0], x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between}); err != nil {
		return err
	}
	if slices.ContainsFunc(v.SANs, func(san string) bool { return named(leaf, san) }) {
		return nil
	}
	for _, uri := range leaf.URIs {
		if slices.Contains(v.URIs, uri.String()) {
			return nil
		}
	}
	return fmt.Errorf("the server's certificate has none of the names %s",
		strings.Join(slices.Concat(v.SANs, v.URIs), ", "))
}

func named(leaf *x509.Certificate, san string) bool {
	rest, wild := strings.CutPrefix(san, "*.")
	if !wild {
		return leaf.VerifyHostname(san) == nil
	}
	return slices.ContainsFunc(leaf.DNSNames, func(name string) bool {
		_, parent, ok := strings.Cut(name, ".")
		return ok && strings.EqualFold(parent, rest)
	})
}
