package attacks

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// JunkTokens opens ADS streams one after another, each with a different JWT that no API server has
// signed. It returns an error if the server accepts a stream.
func JunkTokens(ctx context.Context, conn *grpc.ClientConn, streams int) error {
	claims := base64.RawURLEncoding.EncodeToString(
		fmt.Appendf(nil, `{"aud":["penstock.dev"],"exp":%d,"sub":"system:serviceaccount:default:default"}`,
			time.Now().Add(time.Hour).Unix()))
	for i := range streams {
		token := fmt.Sprintf("e30.%s.%d", claims, i)
		s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).
			DeltaAggregatedResources(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token))
		if err == nil {
			_, err = s.Recv()
		}
		// Unavailable is correct, too: the server closes connections that do not authenticate in
		// time.
		if c := status.Code(err); c != codes.PermissionDenied && c != codes.Unavailable {
			return fmt.Errorf("token %d: %w", i, err)
		}
	}
	return nil
}
