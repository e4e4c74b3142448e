package dial

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// Authorized adds an Authorization header to every call of a connection. Without TLS, calls fail.
func Authorized(header string) grpc.DialOption {
	return grpc.WithPerRPCCredentials(authorization(header))
}

type authorization string

var _ credentials.PerRPCCredentials = authorization("")

func (a authorization) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": string(a)}, nil
}

func (authorization) RequireTransportSecurity() bool { return true }
