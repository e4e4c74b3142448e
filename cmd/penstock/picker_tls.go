package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/xds/authority"
	"github.com/penstock-project/penstock/xds/identity"
)

type pickerTLS struct {
	secure             bool
	certPath, clientCA string
	minVersion         string
	suites             []string
	disk               filesystem.Disk
}

func (t *pickerTLS) flags(f *pflag.FlagSet) {
	f.BoolVar(&t.secure, "secure-serving", true, "serve the endpoint picker protocol over TLS; false is for gateways "+
		"whose Service has appProtocol kubernetes.io/h2c")
	f.StringVar(&t.certPath, "cert-path", "", "folder with the certificate and its key, tls.crt and tls.key; read "+
		"again for each connection (default: a certificate that signs itself, made at each start)")
	f.StringVar(&t.clientCA, "client-ca", "",
		"file with the CA certificates that verify gateways: a client without a valid certificate is denied; read "+
			"again for each connection (default: none, and every client that reaches the port may ask)")
	f.StringVar(&t.minVersion, "tls-min-version", "VersionTLS12", "lowest version of TLS, VersionTLS12 or "+
		"VersionTLS13; Envoy's clients use 1.2 unless they are configured otherwise")
	f.StringSliceVar(&t.suites, "tls-cipher-suites", nil,
		"cipher suites of TLS 1.2, by the names of Go's crypto/tls; may be repeated (default: Go's)")
}

const selfSigned = 10 * 365 * 24 * time.Hour

func (t *pickerTLS) config() (*tls.Config, error) {
	if !t.secure {
		for flag, set := range map[string]bool{"--cert-path": t.certPath != "", "--client-ca": t.clientCA != "",
			"--tls-cipher-suites": len(t.suites) > 0} {
			if set {
				return nil, fmt.Errorf("%s requires --secure-serving: remove one", flag)
			}
		}
		return nil, nil
	}
	base := &tls.Config{NextProtos: []string{"h2"}}
	switch t.minVersion {
	case "", "VersionTLS12":
		base.MinVersion = tls.VersionTLS12
	case "VersionTLS13":
		base.MinVersion = tls.VersionTLS13
	default:
		return nil, fmt.Errorf("--tls-min-version %q: write VersionTLS12 or VersionTLS13", t.minVersion)
	}
	known := tls.CipherSuites()
	for _, name := range t.suites {
		i := slices.IndexFunc(known, func(s *tls.CipherSuite) bool { return s.Name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("--tls-cipher-suites %q: write the name of a secure suite of Go's crypto/tls, such "+
				"as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", name)
		}
		base.CipherSuites = append(base.CipherSuites, known[i].ID)
	}
	certificate, err := t.certificate()
	if err != nil {
		return nil, err
	}
	if t.clientCA != "" {
		if _, err := identity.Pool(&t.disk, t.clientCA); err != nil {
			return nil, fmt.Errorf("--client-ca: %w", err)
		}
	}
	out := base.Clone()
	out.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c, err := certificate()
		if err != nil {
			return nil, err
		}
		config := base.Clone()
		config.Certificates = []tls.Certificate{*c}
		if t.clientCA == "" {
			return config, nil
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
		config.ClientCAs, err = identity.Pool(&t.disk, t.clientCA)
		return config, err
	}
	return out, nil
}

func (t *pickerTLS) certificate() (func() (*tls.Certificate, error), error) {
	if t.certPath == "" {
		ca, err := authority.NewPair(time.Now(), selfSigned)
		if err != nil {
			return nil, err
		}
		pair, err := ca.Issue(time.Now(), selfSigned, true, "penstock", "localhost")
		if err != nil {
			return nil, err
		}
		c, err := tls.X509KeyPair(pair.Cert, pair.Key)
		return func() (*tls.Certificate, error) { return &c, nil }, err
	}
	files := identity.Files{Cert: filepath.Join(t.certPath, "tls.crt"), Key: filepath.Join(t.certPath, "tls.key"),
		Disk: &t.disk}
	c, err := files.Certificate()
	if err != nil {
		return nil, fmt.Errorf("--cert-path: %w", err)
	}
	if leaf, err := x509.ParseCertificate(c.Certificate[0]); err == nil && time.Now().After(leaf.NotAfter) {
		return nil, fmt.Errorf("--cert-path %s: the certificate expired at %s: write a new one", t.certPath,
			leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return files.Certificate, nil
}
