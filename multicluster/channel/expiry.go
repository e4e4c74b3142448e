package channel

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// errExpired ends a stream: new certificates need a new connection.
var errExpired = status.Error(codes.Unauthenticated,
	"the certificate of this connection has expired: connect again with its successor")

// expiryCheck bounds a wait for the expiry of a certificate, because the system clock may be
// adjusted.
const expiryCheck = time.Minute

// expires returns the earliest expiry of the peer's certificates; zero: never.
func expires(ctx context.Context) (first time.Time) {
	from, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return first
	}
	info, _ := from.AuthInfo.(credentials.TLSInfo) // empty without TLS
	chain := info.State.PeerCertificates
	if len(info.State.VerifiedChains) > 0 {
		chain = info.State.VerifiedChains[0]
	}
	for _, c := range chain {
		if first.IsZero() || c.NotAfter.Before(first) {
			first = c.NotAfter
		}
	}
	return first
}

func (c *Channel) untilExpiry(ctx context.Context, at time.Time) error {
	if at.IsZero() {
		<-ctx.Done()
		return ctx.Err()
	}
	for {
		left := at.Sub(c.cfg.Now())
		if left <= 0 {
			return errExpired
		}
		if !Pause(ctx, min(left, c.expiryCheck)) {
			return ctx.Err()
		}
	}
}

func expired(err error) bool {
	return errors.Is(err, errExpired) || status.Code(err) == codes.Unauthenticated
}
