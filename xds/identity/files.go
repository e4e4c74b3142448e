package identity

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/xds/admission"
)

// Files names the credential files for proxies that Penstock does not deploy. Each connection reads
// them again.
type Files struct {
	// Cert and Key are the files of this process's certificate and key. Required.
	Cert, Key string
	// CA is a file with the certificates that verify Cert. Default: ClientCA.
	CA string
	// ClientCA is a file with the certificates that verify proxies. Optional with Token.
	ClientCA string
	// Token is a file with a token of proxies in each line. Optional with ClientCA.
	Token string
	Disk  *filesystem.Disk
}

const tokenCheck = 10 * time.Second

// Certificate reads this process's certificate.
func (f Files) Certificate() (*tls.Certificate, error) {
	return f.Disk.KeyPair(f.Cert, f.Key)
}

// Bundle reads the certificates that verify Cert, in PEM.
func (f Files) Bundle() ([]byte, error) {
	if f.CA == "" {
		return f.Disk.Read(f.ClientCA)
	}
	return f.Disk.Read(f.CA)
}

// PickKey derives the key for calls to the external picker from Key. Processes that share Key
// derive the same key.
func (f Files) PickKey() (string, error) {
	raw, err := f.Disk.Read(f.Key)
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, raw)
	mac.Write([]byte("penstock.dev picker"))
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// TLS returns a server configuration. If verify is set, ClientCA verifies client certificates. They
// are required if Token is empty.
func (f Files) TLS(verify bool, lowest uint16) *tls.Config {
	return &tls.Config{MinVersion: lowest, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		cert, err := f.Certificate()
		if err != nil {
			return nil, err
		}
		out := &tls.Config{MinVersion: lowest, Certificates: []tls.Certificate{*cert}, NextProtos: []string{"h2"}}
		if !verify || f.ClientCA == "" {
			return out, nil
		}
		out.ClientAuth = tls.RequireAndVerifyClientCert
		if f.Token != "" {
			out.ClientAuth = tls.VerifyClientCertIfGiven
		}
		out.ClientCAs, err = Pool(f.Disk, f.ClientCA)
		return out, err
	}}
}

// Pool reads a file of CA certificates.
func Pool(disk *filesystem.Disk, file string) (*x509.CertPool, error) {
	raw, err := disk.Read(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("%s: the file has no PEM certificate", file)
	}
	return pool, nil
}

func (f Files) Tokens() ([]string, error) {
	raw, err := f.Disk.Read(f.Token)
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(raw)), nil
}

// Authenticate verifies a call's credential. `permitted` returns an error once the credential is
// invalid, and otherwise when to call it again.
func (f Files) Authenticate(ctx context.Context) (permitted func() (next time.Time, err error), err error) {
	if from, ok := peer.FromContext(ctx); ok {
		if info, ok := from.AuthInfo.(credentials.TLSInfo); ok && len(info.State.VerifiedChains) > 0 {
			end := ends(info.State.VerifiedChains[0])
			permitted = func() (time.Time, error) {
				if !time.Now().Before(end) {
					return time.Time{},
						fmt.Errorf("the client's certificate expired at %s: connect again with its successor",
							end.UTC().Format(time.RFC3339))
				}
				return end, nil
			}
			if _, err := permitted(); err != nil {
				admission.CloseSoon(ctx)
				return nil, err
			}
			return permitted, nil
		}
	}
	given := bearerTokens(ctx)
	if f.Token == "" || len(given) == 0 {
		return nil, errors.New("no certificate and no token of this control plane: see penstock bootstrap --help")
	}
	hash := sha256.Sum256([]byte(given[0]))
	if err := f.accepts(hash); err != nil {
		return nil, err
	}
	return func() (time.Time, error) {
		err := f.accepts(hash)
		if errors.Is(err, errUnreadable) {
			err = nil
		}
		return time.Now().Add(tokenCheck), err
	}, nil
}

// errUnreadable means that the token could not be checked.
var errUnreadable = errors.New("the file of --xds-token cannot be read")

func (f Files) accepts(hash [sha256.Size]byte) error {
	tokens, err := f.Tokens()
	if err != nil {
		return fmt.Errorf("%w: %w", errUnreadable, err)
	}
	for _, t := range tokens {
		if own := sha256.Sum256([]byte(t)); subtle.ConstantTimeCompare(own[:], hash[:]) == 1 {
			return nil
		}
	}
	return errors.New("the token is not one of this control plane's")
}
