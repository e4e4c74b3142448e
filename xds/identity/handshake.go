package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"

	"google.golang.org/grpc/credentials"
)

// ServerCredentials returns gRPC server credentials that log why a handshake fails.
func ServerCredentials(config *tls.Config, log *slog.Logger) credentials.TransportCredentials {
	return loggedHandshakes{credentials.NewTLS(config), log}
}

type loggedHandshakes struct {
	credentials.TransportCredentials
	log *slog.Logger
}

func (c loggedHandshakes) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil && !abandoned(err) {
		// Without the port, each retry logs the same line.
		host, _, _ := net.SplitHostPort(raw.RemoteAddr().String())
		c.log.Warn("connection denied", "peer", host, "reason", handshakeReason(err))
	}
	return conn, info, err
}

func (c loggedHandshakes) Clone() credentials.TransportCredentials {
	return loggedHandshakes{c.TransportCredentials.Clone(), c.log}
}

func abandoned(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded)
}

// handshakeReason omits the times and client-chosen names in x509 errors, so that each retry logs
// the same line.
func handshakeReason(err error) string {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return "the client's certificate is of another CA: see penstock bootstrap --help"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil:
		return "the client's certificate is valid from " + invalid.Cert.NotBefore.UTC().Format(time.RFC3339) + " to " +
			invalid.Cert.NotAfter.UTC().Format(time.RFC3339)
	case errors.As(err, &invalid):
		return "the client's certificate is invalid"
	case err.Error() == "tls: client didn't provide a certificate": // crypto/tls exports no error
		return "the client has no certificate: see penstock bootstrap --help"
	}
	return err.Error() + ": see penstock bootstrap --help" // most likely the client uses cleartext or trusts another CA
}
