package identity

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/penstock-project/penstock/xds/admission"
)

type gatewayKey struct{}

// WithKey denies a call without a Gateway's key, before any message is read. owner must not block.
// Services in exempt need no key.
func WithKey(owner func(token string) (gateway string), exempt ...string) tap.ServerInHandle {
	return func(ctx context.Context, call *tap.Info) (context.Context, error) {
		for _, token := range bearers(call.Header) {
			if gateway := owner(token); gateway != "" {
				admission.Admit(ctx)
				return context.WithValue(ctx, gatewayKey{}, gateway), nil
			}
		}
		for _, service := range exempt {
			if strings.HasPrefix(call.FullMethodName, "/"+service+"/") {
				return ctx, nil
			}
		}
		return ctx, status.Error(codes.Unauthenticated, "the call has no key of a Gateway of this installation")
	}
}

// Gateway returns the Gateway whose key the call has, or "".
func Gateway(ctx context.Context) string {
	gateway, _ := ctx.Value(gatewayKey{}).(string)
	return gateway
}
