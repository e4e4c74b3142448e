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

// WithKey denies calls without the key of a Gateway as bearer token before it reads a message.
// owner returns the Gateway of a token, or ""; it must not block. exempt are services without a
// key, such as health. A connection with a key is admitted (xds/admission). A server has one tap
// handle, so the picker chains this one before its own.
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

// Gateway returns the Gateway whose key a call has; "" if calls need none.
func Gateway(ctx context.Context) string {
	gateway, _ := ctx.Value(gatewayKey{}).(string)
	return gateway
}
