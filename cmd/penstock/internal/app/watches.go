package app

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/picker/authz"
	"github.com/penstock-project/penstock/picker/extproc"
)

// watches ends requests whose key has lost its permission. It implements extproc.Watches.
type watches struct {
	open *authz.Open
	// keyed means that this cluster's Gateways send keys. A call without a key comes from
	// elsewhere.
	keyed bool
}

func (w watches) Watch(_ context.Context, in extproc.Watched, end func(*extproc.Answer)) (func(), error) {
	if w.keyed && in.Gateway == "" {
		return nil, status.Error(codes.PermissionDenied, "a call that watches a request has a Gateway's key")
	}
	done, err := w.open.Watch(authz.Watched{Gateway: in.Gateway, Grant: in.Grant, Policies: in.Policies,
		Pools: in.Pools}, func(d authz.Decision) {
		code, text := d.Denial()
		end(&extproc.Answer{Status: code, Reason: d.Reason, Message: text})
	})
	switch {
	case errors.Is(err, authz.ErrGrant):
		return nil, status.Error(codes.PermissionDenied, err.Error())
	case err != nil:
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return done, nil
}
