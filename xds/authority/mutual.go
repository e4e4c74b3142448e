package authority

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// Mutual returns TLS configurations between processes of one installation. Each side requires a
// certificate of the current, next or previous authority, which proxies lack. name is one of
// Config.Names.
func (a *Authority) Mutual(name string) (server, client *tls.Config) {
	server = &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert, GetCertificate: a.GetCertificate,
		VerifyConnection: func(s tls.ConnectionState) error { return a.verify(s, "", x509.ExtKeyUsageClientAuth) },
	}
	client = &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: name,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return a.GetCertificate(nil)
		},
		// verify replaces the built-in verification, because authorities change.
		InsecureSkipVerify: true,
		VerifyConnection:   func(s tls.ConnectionState) error { return a.verify(s, name, x509.ExtKeyUsageServerAuth) },
	}
	return server, client
}

func (a *Authority) verify(s tls.ConnectionState, name string, usage x509.ExtKeyUsage) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("no certificate")
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.Bundle())
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: roots, DNSName: name, CurrentTime: a.cfg.Now(), KeyUsages: []x509.ExtKeyUsage{usage},
	})
	return err
}
