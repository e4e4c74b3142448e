package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/spf13/pflag"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/xds/identity"
)

type secure struct {
	cert, key, ca, clientCA, token string
	openPicker, insecurePicker     bool
	disk                           filesystem.Disk
}

func (s *secure) flags(f *pflag.FlagSet) {
	f.StringVar(&s.cert, "xds-cert", "", "file with the certificate of ADS and of the picker, which then serve TLS; "+
		"read again for each connection. penstock credentials makes one. Requires --xds-key, and --xds-client-ca or "+
		"--xds-token (default: none, and --xds is a socket, and --picker a loopback address)")
	f.StringVar(&s.key, "xds-key", "", "file with the private key of --xds-cert. Processes with the same "+
		"--picker-address share it: proxies call each picker with one key, which is derived from it (default: none)")
	f.StringVar(&s.clientCA, "xds-client-ca", "", "file with the CA certificates that verify client certificates of "+
		"proxies. Outside of fleets such a proxy may read every Gateway (default: none)")
	f.StringVar(&s.token, "xds-token", "", "file with the tokens that authenticate proxies, one a line; such a proxy "+
		"may read every Gateway (default: none)")
	f.StringVar(&s.ca, "xds-ca", "", "file with the CA certificates that verify --xds-cert for proxies that call the "+
		"picker (default: --xds-client-ca)")
	f.BoolVar(&s.openPicker, "picker-open", false, "accept picks over TLS from every client, such as gateways of "+
		"other clusters (default: only from the Gateways' own proxies, which get a key)")
	f.BoolVar(&s.insecurePicker, "insecure-picker", false,
		"serve --picker without TLS and credentials on an address that is not loopback: every client that reaches it "+
			"can pick from all pools (default: penstock does not start so)")
}

func (s *secure) credentials() (*app.Credentials, error) {
	switch {
	case s.cert == "" && s.key == "" && s.token == "" && s.ca == "" && s.clientCA == "":
		if s.openPicker {
			return nil, errors.New("--picker-open requires --xds-cert and --xds-key")
		}
		return nil, nil
	case s.cert == "" || s.key == "" || s.clientCA == "" && s.token == "":
		return nil, errors.New("--xds-cert and --xds-key require each other, and --xds-client-ca or --xds-token: " +
			"penstock credentials makes the files")
	case s.ca == "" && s.clientCA == "":
		return nil, errors.New("--xds-token without --xds-client-ca requires --xds-ca: proxies verify the picker's " +
			"certificate by it")
	case s.insecurePicker:
		return nil, errors.New("--insecure-picker and --xds-cert exclude each other")
	}
	out := &app.Credentials{OpenPicker: s.openPicker,
		Files: identity.Files{Cert: s.cert, Key: s.key, CA: s.ca, ClientCA: s.clientCA, Token: s.token, Disk: &s.disk}}
	cert, err := out.Files.Certificate()
	if err != nil {
		return nil, fmt.Errorf("--xds-cert, --xds-key: %w", err)
	}
	if len(cert.Leaf.DNSNames) == 0 {
		return nil, fmt.Errorf("--xds-cert %s: the certificate has no DNS name, by which proxies verify the picker: "+
			"add one, such as penstock", s.cert)
	}
	out.Name = cert.Leaf.DNSNames[0]
	if s.clientCA != "" {
		if _, err := identity.Pool(&s.disk, s.clientCA); err != nil {
			return nil, fmt.Errorf("--xds-client-ca: %w", err)
		}
	}
	if s.token != "" {
		tokens, err := out.Files.Tokens()
		if err != nil {
			return nil, fmt.Errorf("--xds-token: %w", err)
		}
		if len(tokens) == 0 {
			return nil, fmt.Errorf("--xds-token %s: the file has no token", s.token)
		}
	}
	return out, s.verify(cert.Certificate, out.Name)
}

func (s *secure) verify(chain [][]byte, name string) error {
	flag, file := "--xds-ca", s.ca
	if file == "" {
		flag, file = "--xds-client-ca", s.clientCA
	}
	roots, err := identity.Pool(&s.disk, file)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	between := x509.NewCertPool()
	var leaf *x509.Certificate
	for i, der := range chain {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return fmt.Errorf("--xds-cert: %w", err)
		}
		if i == 0 {
			leaf = c
		} else {
			between.AddCert(c)
		}
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: name}); err != nil {
		return fmt.Errorf("%s %s does not verify --xds-cert, which proxies need for the picker: %w; name the "+
			"certificate's CA in --xds-ca", flag, file, err)
	}
	return nil
}

// check returns an error, or with --insecure-picker a warning, for a picker without credentials
// that is not on loopback.
func (s *secure) check(log *slog.Logger, picker net.Addr, secured bool) error {
	if secured || app.Local(picker) {
		return nil
	}
	if !s.insecurePicker {
		return fmt.Errorf("--picker %s is not a loopback address, and every client that reaches it could pick from "+
			"all pools: add --xds-cert, --xds-key and --xds-client-ca or --xds-token (penstock credentials makes the "+
			"files), or --insecure-picker if only trusted clients reach it", picker)
	}
	log.Warn("served without TLS and credentials, as --insecure-picker allows: every client that reaches this "+
		"address is trusted", "flag", "--picker", "address", picker.String())
	return nil
}
